"""Stands in for torchvision, which has no CPU build for this torch, so that streaming can be imported."""
