"""The model of the small examples: a pre-norm Transformer with learned positions, and its learning rate schedule."""

from __future__ import annotations

import math

import torch
from torch import nn


class SmallGPT(nn.Module):
    """Ids (rows, seq_len) to logits (rows, seq_len, vocab_size)."""

    def __init__(self, vocab_size: int, seq_len: int, n_embd: int, n_layer: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.positions = nn.Embedding(seq_len, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, 4, 4 * n_embd, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, n_layer, nn.LayerNorm(n_embd), enable_nested_tensor=False)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=ids.device)
        x = self.tokens(ids) + self.positions(torch.arange(length, device=ids.device))
        return self.head(self.blocks(x, mask, is_causal=True))


def learning_rate_share(step: int, steps: int) -> float:
    """The share of the highest learning rate: a tenth of the run to warm up, then a cosine down to a tenth."""
    warm_up = max(steps // 10, 1)
    progress = min((step - warm_up) / max(steps - warm_up, 1), 1.0)
    return (step + 1) / warm_up if step < warm_up else 0.55 + 0.45 * math.cos(math.pi * progress)
