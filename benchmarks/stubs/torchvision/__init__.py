"""Stands in for torchvision, of which no CPU build for this torch exists, so that streaming can be imported."""
