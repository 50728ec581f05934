"""Golden numbers of the functions that tests/nn/coverage_cases.cpp calls. Writes
tests/golden/nn/coverage.json, in the form of make_nn.py's functions.json.

    python tests/golden/make_coverage.py

PyTorch 2.15.0 (CPU) made the committed file.
"""
import torch
import torch.nn.functional as F

from make_nn import Input, case, write

X = Input(4, 6, low=-3, high=3)
AWAY = Input(4, 6, low=0.3, high=1.7)
SIGN = dict(values=[1, -1, -1, 1])
SIGNS24 = [1 if (i * 7) % 5 < 3 else -1 for i in range(24)]
CLASSES = dict(values=[2, 0, 5, 2])
LABELS = dict(values=[1, 3, -1, 0, 2, 2, 0, -1, 1, 5, 4, -1, -1, 0, 3, -1, 1, 1, 0, 1, 4, 5, -1, 2])
SIGNAL = Input(2, 4, 9)
VOLUME = Input(2, 2, 5, 6, 4)
IMAGE = Input(2, 4, 7, 6)


def signs(t):
    return t.double()


def ctc(x, targets, reduction="mean", lengths=(6, 5), of_targets=(3, 2)):
    return F.ctc_loss(x.log_softmax(-1), targets, torch.tensor(lengths), torch.tensor(of_targets),
                      reduction=reduction)


def tensor_functions():
    index = Input(4, values=[2, 0, 5, 2])
    return [
        case("lerp", lambda a, b: torch.lerp(a, b, 0.7), X, X),
        case("lerp_by_tensor", torch.lerp, X, X, Input(6, low=0, high=1)),
        case("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=0.5), X, X, X),
        case("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), X, X, AWAY),
        case("hypot", torch.hypot, X, X),
        case("fmod", torch.fmod, X, AWAY),
        case("remainder", torch.remainder, X, AWAY),
        case("atan2", torch.atan2, X, X),
        case("logaddexp", torch.logaddexp, X, X),
        case("xlogy", torch.xlogy, X, AWAY),
        case("logit", lambda x: torch.logit(x, 0.1), Input(4, 6, low=0.01, high=0.99)),
        case("roll", lambda x: torch.roll(x, (2, -1), (1, 0)), X),
        case("roll_flat", lambda x: torch.roll(x, 5), X),
        case("repeat", lambda x: x.repeat(2, 1, 3), Input(2, 3)),
        case("tile", lambda x: torch.tile(x, (2,)), Input(2, 3)),
        case("repeat_interleave", lambda x: torch.repeat_interleave(x, 2, 1), Input(2, 3)),
        case("repeat_interleave_by",
             lambda x, n: torch.repeat_interleave(x, n, 1), Input(2, 3), Input(3, values=[2, 0, 1])),
        case("tensor_unfold", lambda x: x.unfold(1, 3, 2), X),
        case("diag", lambda x: torch.diag(x, -1), Input(4)),
        case("diag_of_matrix", lambda x: torch.diag(x, 2), X),
        case("diag_embed", lambda x: torch.diag_embed(x, 1), Input(2, 3)),
        case("index_add", lambda x, i, s: torch.index_add(x, 1, i, s, alpha=0.5), X, index,
             Input(4, 4)),
        case("index_copy", lambda x, i, s: torch.index_copy(x, 1, i, s), X,
             Input(3, values=[2, 0, 5]), Input(4, 3)),
        case("take", torch.take, X, Input(2, 2, values=[3, 23, 0, 3])),
        case("masked_select", lambda x, m: torch.masked_select(x, m > 0), X,
             Input(6, values=[1, 0, 0, 1, 1, 0])),
        case("cumprod", lambda x: torch.cumprod(x, 1), X),
        case("prod", lambda x: torch.prod(x, 0), X),
        case("prod_of_all", torch.prod, Input(3, 3)),
        case("diff", lambda x: torch.diff(x, 2, 1), X),
        case("kthvalue", lambda x: torch.kthvalue(x, 2, 1)[0], X),
        case("median", lambda x: torch.median(x, 1)[0], X),
        case("quantile", lambda x: torch.quantile(x, 0.3, 1), X),
        case("outer", torch.outer, Input(3), Input(4)),
        case("cross", lambda a, b: torch.linalg.cross(a, b, dim=0), Input(3, 2), Input(3, 2)),
        case("cdist", lambda a, b: torch.cdist(a, b, 2), Input(2, 3, 4), Input(2, 5, 4)),
    ]


def activations():
    return [
        case("mish", F.mish, X), case("hardswish", F.hardswish, Input(5, 7, low=-5, high=5)),
        case("hardsigmoid", F.hardsigmoid, Input(5, 7, low=-5, high=5)),
        case("selu", F.selu, X), case("softsign", F.softsign, X),
        case("logsigmoid", F.logsigmoid, X), case("relu6", F.relu6, Input(5, 7, low=-2, high=9)),
        case("celu", lambda x: F.celu(x, 1.5), X), case("hardtanh", lambda x: F.hardtanh(x, -1, 2), X),
        case("threshold", lambda x: F.threshold(x, 0.5, 2.0), X),
        case("hardshrink", lambda x: F.hardshrink(x, 0.7), X),
        case("softshrink", lambda x: F.softshrink(x, 0.7), X), case("tanhshrink", F.tanhshrink, X),
        case("softmin", lambda x: F.softmin(x, 1), X),
        case("softplus_of", lambda x: F.softplus(x, 2, 3), X),
        case("prelu", F.prelu, Input(2, 4, 3), Input(4, low=0.1, high=0.4)),
        case("prelu_of_one", F.prelu, X, Input(1, low=0.1, high=0.4)),
        case("glu", lambda x: F.glu(x, 1), X),
        case("rrelu", lambda x: F.rrelu(x), X),
    ]


def layers():
    points = Input(2, 3, 5, 2, low=-1.1, high=1.1)
    return [
        case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), IMAGE,
             Input(4, low=0.5, high=1.5), Input(4)),
        case("local_response_norm", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 2), IMAGE),
        case("normalize", lambda x: F.normalize(x, 3, 1), X),
        case("cosine_similarity", F.cosine_similarity, X, X),
        case("pairwise_distance", F.pairwise_distance, X, X),
        case("bilinear", F.bilinear, Input(3, 2), Input(3, 4), Input(5, 2, 4), Input(5)),
        case("conv3d", lambda x, w, b: F.conv3d(x, w, b, (2, 1, 1), (1, 0, 2), (1, 2, 1)), VOLUME,
             Input(3, 2, 2, 3, 2), Input(3)),
        case("conv_transpose3d", lambda x, w, b: F.conv_transpose3d(
            x, w, b, (2, 1, 2), (1, 0, 1), (1, 0, 1), 1, (2, 1, 1)), Input(2, 2, 3, 4, 3),
             Input(2, 3, 2, 3, 2), Input(3)),
        case("conv_transpose3d_groups", lambda x, w: F.conv_transpose3d(
            x, w, None, 1, (2, 1, 0), 0, 2), Input(1, 4, 3, 4, 3), Input(4, 1, 3, 2, 1)),
        case("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), SIGNAL,
             Input(4, 3, 3), Input(3)),
        case("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), SIGNAL),
        case("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), SIGNAL),
        case("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4), SIGNAL),
        case("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 4), SIGNAL),
        case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 4)), IMAGE),
        case("max_pool3d", lambda x: F.max_pool3d(x, (2, 3, 2), (2, 2, 1), (1, 1, 0)), VOLUME),
        case("avg_pool3d",
             lambda x: F.avg_pool3d(x, (2, 3, 2), 2, (1, 1, 0), count_include_pad=False), VOLUME),
        case("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (2, 4, 3)), VOLUME),
        case("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, (2, 4, 3)), VOLUME),
        case("max_unpool2d",
             lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, 2, return_indices=True), 2, 2), IMAGE),
        case("max_unpool3d", lambda x: F.max_unpool3d(
            *F.max_pool3d(x, (2, 2, 1), (2, 2, 1), return_indices=True), (2, 2, 1), (2, 2, 1),
            output_size=VOLUME.shape[2:]), VOLUME),
        case("lp_pool3d", lambda x: F.lp_pool3d(x, 3, (2, 3, 1), (1, 2, 2)),
             Input(2, 2, 5, 6, 4, low=0.1)),
        case("lp_pool2d", lambda x: F.lp_pool2d(x, 2, (2, 3), 2), Input(2, 4, 7, 6, low=0.1)),
        case("unfold", lambda x: F.unfold(x, (2, 3), 1, (1, 0), (2, 1)), IMAGE),
        case("fold", lambda x: F.fold(x, (5, 4), (2, 3), 1, (1, 0), (2, 1)), Input(2, 12, 6)),
        case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), Input(2, 2, 4, 6)),
        case("channel_shuffle", lambda x: F.channel_shuffle(x, 2), IMAGE),
        case("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), IMAGE, points),
        case("grid_sample_border",
             lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), IMAGE,
             points),
        case("grid_sample_nearest",
             lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False), IMAGE,
             Input(2, 3, 5, 2, low=-1.1, high=1.1, grad=False)),
        case("affine_grid", lambda t: F.affine_grid(t, [2, 1, 3, 4], align_corners=False),
             Input(2, 2, 3)),
        case("embedding_bag", lambda w, i: F.embedding_bag(i, w, mode="sum"), Input(6, 3),
             Input(2, 3, values=[4, 0, 2, 2, 3, 1])),
        case("embedding_bag_offsets",
             lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 2, 2]), mode="mean"), Input(6, 3),
             Input(5, values=[4, 0, 2, 2, 3])),
    ]


def losses():
    many = Input(4, 6, values=SIGNS24)
    both = Input(4, 6, values=[(s + 1) // 2 for s in SIGNS24])
    return [
        case("soft_margin_loss", lambda x, t: F.soft_margin_loss(x, signs(t)), X, many),
        case("hinge_embedding_loss", lambda x, t: F.hinge_embedding_loss(x, signs(t), 1.5), X, many),
        case("margin_ranking_loss", lambda a, b, t: F.margin_ranking_loss(a, b, signs(t), 0.3), X, X,
             many),
        case("cosine_embedding_loss",
             lambda a, b, t: F.cosine_embedding_loss(a, b, signs(t), 0.1), X, X, Input(4, **SIGN)),
        case("triplet_margin_loss", F.triplet_margin_loss, X, X, X),
        case("triplet_margin_loss_swap",
             lambda a, p, n: F.triplet_margin_loss(a, p, n, 2.0, swap=True, reduction="sum"), X, X, X),
        case("gaussian_nll_loss", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True), X, X,
             AWAY),
        case("poisson_nll_loss", lambda x, t: F.poisson_nll_loss(x, t), X,
             Input(4, 6, low=0, high=5, grad=False)),
        case("poisson_nll_loss_full",
             lambda x, t: F.poisson_nll_loss(x, t, log_input=False, full=True), AWAY,
             Input(4, 6, low=0, high=5, grad=False)),
        case("multi_margin_loss", F.multi_margin_loss, X, Input(4, **CLASSES)),
        case("multi_margin_loss_squares",
             lambda x, t, w: F.multi_margin_loss(x, t, 2, 0.7, w, reduction="none"), X,
             Input(4, **CLASSES), Input(6, low=0.2, high=2, grad=False)),
        case("multilabel_margin_loss", F.multilabel_margin_loss, X, Input(4, 6, **LABELS)),
        case("multilabel_soft_margin_loss",
             lambda x, t: F.multilabel_soft_margin_loss(x, t.double()), X, both),
        case("ctc_loss", ctc, Input(6, 2, 5, low=-2, high=2),
             Input(2, 3, values=[1, 1, 4, 3, 2, 0])),
        case("ctc_loss_each", lambda x, t: ctc(x, t, "none", (6, 4), (1, 0)),
             Input(6, 2, 5, low=-2, high=2), Input(2, 3, values=[2, 1, 4, 3, 2, 1])),
    ]


if __name__ == "__main__":
    torch.manual_seed(0)
    write("coverage.json", tensor_functions() + activations() + layers() + losses())
