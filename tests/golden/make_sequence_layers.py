"""Golden numbers of attention layers and Transformers. Writes tests/golden/nn/attention_layers.json.

    python tests/golden/make_sequence_layers.py

PyTorch 2.15.0 (CPU) made the committed file.
"""
import torch

from make_nn import hashed, numbers, write


def case(name, layer, shapes, call):
    """Results and gradients of call(layer, *inputs), with hashed parameters and inputs."""
    layer = layer.double().eval()
    with torch.no_grad():
        for seed, p in enumerate(layer.parameters()):
            p.copy_(hashed(tuple(p.shape), seed) * 0.5)
    inputs = [hashed(shape, 50 + i).requires_grad_() for i, shape in enumerate(shapes)]
    results = call(layer, *inputs)
    results = [r for r in (results if isinstance(results, tuple) else (results,)) if r is not None]
    sum((r * hashed(tuple(r.shape), 90 + i)).sum() for i, r in enumerate(results)).backward()
    return {"name": name, "shapes": shapes, "results": [numbers(r) for r in results],
            "dx": [numbers(x.grad) for x in inputs],
            "grads": {n: numbers(p.grad) for n, p in layer.named_parameters()}}


def hides(*shape, seed):
    """A mask that hides about a third, but nothing from the first key."""
    mask = hashed(shape, seed) > 0.4
    mask[..., 0] = False
    return mask


def attention():
    make = torch.nn.MultiheadAttention
    three = [(4, 2, 6), (5, 2, 6), (5, 2, 6)]
    first = [(2, 4, 6), (2, 5, 6), (2, 5, 6)]
    padding, each = hides(2, 5, seed=70), hides(4, 5, seed=71)
    of_heads = hides(6, 4, 5, seed=72)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    return [
        case("attention", make(6, 3), three, lambda f, q, k, v: f(q, k, v, need_weights=False)),
        case("attention_weights", make(6, 3), three, lambda f, q, k, v: f(q, k, v)),
        case("attention_batch_first", make(6, 3, batch_first=True, bias=False), first,
             lambda f, q, k, v: f(q, k, v, need_weights=False)),
        case("attention_other_features", make(6, 2, kdim=5, vdim=3, batch_first=True),
             [(2, 4, 6), (2, 5, 5), (2, 5, 3)], lambda f, q, k, v: f(q, k, v)),
        case("attention_padding", make(6, 3), three,
             lambda f, q, k, v: f(q, k, v, key_padding_mask=padding)),
        case("attention_masks", make(6, 3), three,
             lambda f, q, k, v: f(q, k, v, key_padding_mask=padding, attn_mask=each)),
        case("attention_masks_of_heads", make(6, 3), three,
             lambda f, q, k, v: f(q, k, v, attn_mask=of_heads, need_weights=False)),
        case("attention_added_mask", make(6, 3), three,
             lambda f, q, k, v: f(q, k, v, key_padding_mask=padding.double() * -2,
                                  attn_mask=hashed((4, 5), 73))),
        case("attention_causal", make(6, 3), [(4, 2, 6)],
             lambda f, x: f(x, x, x, attn_mask=causal, need_weights=False)),
        case("attention_one", make(6, 3), [(4, 6), (5, 6), (5, 6)],
             lambda f, q, k, v: f(q, k, v, key_padding_mask=padding[0])),
    ]


def transformers():
    n = torch.nn
    small = dict(dim_feedforward=7, dropout=0.3)
    first = dict(batch_first=True, norm_first=True, activation="gelu", layer_norm_eps=1e-3)
    padding = hides(2, 4, seed=70)
    causal = n.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    return [
        case("encoder_layer", n.TransformerEncoderLayer(6, 3, **small), [(4, 2, 6)],
             lambda f, x: f(x)),
        case("encoder_layer_first", n.TransformerEncoderLayer(6, 3, **small, **first), [(2, 4, 6)],
             lambda f, x: f(x, src_key_padding_mask=padding)),
        case("decoder_layer", n.TransformerDecoderLayer(6, 3, **small), [(3, 2, 6), (4, 2, 6)],
             lambda f, t, m: f(t, m)),
        case("decoder_layer_first", n.TransformerDecoderLayer(6, 3, **small, **first),
             [(2, 3, 6), (2, 4, 6)],
             lambda f, t, m: f(t, m, tgt_mask=causal, memory_key_padding_mask=padding)),
        case("encoder", n.TransformerEncoder(n.TransformerEncoderLayer(6, 3, bias=False, **small), 2,
                                             enable_nested_tensor=False),
             [(4, 2, 6)], lambda f, x: f(x)),
        case("transformer", n.Transformer(6, 3, 2, 2, **small), [(4, 2, 6), (3, 2, 6)],
             lambda f, s, t: f(s, t, tgt_mask=causal)),
    ]


if __name__ == "__main__":
    torch.manual_seed(0)
    write("attention_layers.json", attention() + transformers())
