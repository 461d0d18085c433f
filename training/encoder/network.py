"""The network: the lower layers of the base model and two outputs, injection and memory poison."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from .base import HEADS, HIDDEN, INNER, POSITIONS

OUTPUTS = ("injection", "poison")
EPSILON = 1e-12
# Added to the attention of padding. Half precision would overflow far below f32's minimum.
MASKED = -10000.0


class Layer(nn.Module):
    """One layer of BERT, normalised after each half."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.attended = nn.Linear(HIDDEN, HIDDEN)
        self.attended_norm = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.widened = nn.Linear(HIDDEN, INNER)
        self.narrowed = nn.Linear(INNER, HIDDEN)
        self.narrowed_norm = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.dropout = dropout

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = states.shape
        parts = self.query_key_value(states).view(batch, length, 3, HEADS, HIDDEN // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        # Plain products: on a processor, the fused attention takes twice as long backwards at these lengths.
        scores = query @ key.transpose(-1, -2) * (HIDDEN / HEADS) ** -0.5 + mask.to(query.dtype)
        seen = scores.softmax(-1).to(value.dtype) @ value
        seen = self.attended(seen.transpose(1, 2).reshape(batch, length, HIDDEN))
        states = self.attended_norm(states + self._drop(seen))
        wide = self.narrowed(f.gelu(self.widened(states)))
        return self.narrowed_norm(states + self._drop(wide))

    def _drop(self, states: Tensor) -> Tensor:
        return f.dropout(states, self.dropout, self.training)


class Network(nn.Module):
    """From token ids and a mask to two logits for each text."""

    def __init__(self, tokens: int, known: int, layers: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.known_tokens = nn.Parameter(torch.zeros(known, HIDDEN))
        self.new_tokens = nn.Parameter(torch.zeros(tokens - known, HIDDEN))
        self.positions = nn.Parameter(torch.zeros(POSITIONS, HIDDEN))
        self.embedded_norm = nn.LayerNorm(HIDDEN, eps=EPSILON)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(layers))
        # The first token's state and the mean of all.
        self.outputs = nn.Linear(2 * HIDDEN, len(OUTPUTS))
        self.dropout = dropout
        nn.init.normal_(self.outputs.weight, std=0.02)
        nn.init.zeros_(self.outputs.bias)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.states(ids, mask)[-1].float()
        with torch.autocast(states.device.type, enabled=False):
            return self.outputs(pooled(states, mask))

    def states(self, ids: Tensor, mask: Tensor) -> list[Tensor]:
        """The states after the embedding and after each layer."""
        table = torch.cat((self.known_tokens, self.new_tokens))
        states = f.embedding(ids, table) + self.positions[: ids.shape[1]]
        states = f.dropout(self.embedded_norm(states), self.dropout, self.training)
        bias = ((1.0 - mask.float()) * MASKED)[:, None, None, :]
        seen = [states]
        for layer in self.layers:
            seen.append(layer(seen[-1], bias))
        return seen


def averaged(networks: list[Network]) -> dict[str, Tensor]:
    """The mean of the weights of networks that began as one and have the same vocabulary."""
    each = [network.state_dict() for network in networks]
    return {name: torch.stack([one[name] for one in each]).mean(0) for name in each[0]}


def pooled(states: Tensor, mask: Tensor) -> Tensor:
    weight = mask.float().unsqueeze(-1)
    mean = (states * weight).sum(1) / weight.sum(1)
    return torch.cat((states[:, 0], mean), dim=1)


def starting_from(base: dict[str, np.ndarray], rows: np.ndarray, known: int, layers: tuple[int, ...]) -> Network:
    """A network with the weights of `layers` of the base model."""
    made = Network(len(rows), known, len(layers))
    kind = base["embeddings.token_type_embeddings.weight"][0]
    made.known_tokens.data = torch.from_numpy(rows[:known].copy())
    made.new_tokens.data = torch.from_numpy(rows[known:].copy())
    # All tokens are of the first kind, so its embedding joins the positions.
    made.positions.data = torch.from_numpy(base["embeddings.position_embeddings.weight"] + kind)
    _copy(made.embedded_norm, base, "embeddings.LayerNorm")
    for layer, index in zip(made.layers, layers, strict=True):
        _copy_layer(layer, base, f"encoder.layer.{index}")
    return made


def _copy_layer(layer: Layer, base: dict[str, np.ndarray], name: str) -> None:
    for part in ("weight", "bias"):
        own = f"{name}.attention.self"
        joined = np.concatenate([base[f"{own}.{one}.{part}"] for one in ("query", "key", "value")])
        getattr(layer.query_key_value, part).data = torch.from_numpy(joined)
    _copy(layer.attended, base, f"{name}.attention.output.dense")
    _copy(layer.attended_norm, base, f"{name}.attention.output.LayerNorm")
    _copy(layer.widened, base, f"{name}.intermediate.dense")
    _copy(layer.narrowed, base, f"{name}.output.dense")
    _copy(layer.narrowed_norm, base, f"{name}.output.LayerNorm")


def _copy(module: nn.Module, base: dict[str, np.ndarray], name: str) -> None:
    module.weight.data = torch.from_numpy(base[f"{name}.weight"].copy())
    module.bias.data = torch.from_numpy(base[f"{name}.bias"].copy())
