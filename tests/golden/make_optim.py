"""Golden numbers of tests/optim from PyTorch and timm. Writes tests/golden/optim/*.json.

    python tests/golden/make_optim.py

Versions that made the committed files: PyTorch 2.15.0, timm 1.0.31 (CPU).
"""
import json
import math
import pathlib

import timm
import timm.optim
import timm.scheduler
import timm.utils
import torch

OUT = pathlib.Path(__file__).parent / "optim"
STEPS = 6
SHAPES = {"body.weight": (3, 4), "body.bias": (4,), "head.weight": (2, 3), "zero": (3,)}
# Parameters without a gradient in some steps.
ABSENT = {("body.bias", 0), ("head.weight", 2), ("head.weight", 3)}


def starting_point():
    generator = torch.Generator().manual_seed(7)
    values = {n: torch.randn(s, generator=generator) for n, s in SHAPES.items()}
    values["zero"].zero_()
    grads = [{n: torch.randn(s, generator=generator) * 3 ** (step % 3)
              for n, s in SHAPES.items() if (n, step) not in ABSENT} for step in range(STEPS)]
    return values, grads


VALUES, GRADS = starting_point()


def numbers(tensors):
    return {name: tensor.flatten().tolist() for name, tensor in tensors.items()}


def train(make, dtype, head_options):
    parameters = {n: v.to(dtype).clone().requires_grad_() for n, v in VALUES.items()}
    head = [parameters["head.weight"]]
    body = [p for n, p in parameters.items() if n != "head.weight"]
    groups = [{"params": body}, {"params": head, **head_options}]
    optimizer = make(groups if head_options else list(parameters.values()))
    for grads in GRADS:
        for name, p in parameters.items():
            p.grad = grads[name].to(dtype).clone() if name in grads else None
        optimizer.step()
    return numbers({n: p.detach() for n, p in parameters.items()})


def case(name, rule, options, make, head_options=None, head_torch=None):
    return {"case": name, "rule": rule, "options": options, "head_options": head_options or {},
            "f64": train(make, torch.float64, head_torch or head_options or {}),
            "f32": train(make, torch.float32, head_torch or head_options or {})}


def sgd(name, head=None, **options):
    return case(name, "sgd", options,
                lambda p: torch.optim.SGD(p, foreach=False, fused=False, **options), head)


def adam(rule, name, head=None, **options):
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[rule]
    torch_options = dict(options)
    ours = dict(options)
    if "betas" in ours:
        ours["beta1"], ours["beta2"] = ours.pop("betas")
    return case(name, rule, ours,
                lambda p: kind(p, foreach=False, fused=False, **torch_options), head)


def lamb(name, head=None, **options):
    ours = {k: float(v if v is not None else 0) for k, v in options.items()}
    return case(name, "lamb", ours, lambda p: timm.optim.Lamb(p, foreach=False, **options), head)


def rmsprop(name, head=None, **options):
    ours = {k: float(v) for k, v in options.items()}
    return case(name, "rmsprop", ours, lambda p: torch.optim.RMSprop(p, foreach=False, **options),
                head)


def optimizers():
    cases = [
        sgd("sgd", lr=0.1),
        sgd("sgd, decay", lr=0.1, weight_decay=0.3),
        sgd("sgd, momentum", lr=0.1, momentum=0.9),
        sgd("sgd, momentum, dampening, decay", lr=0.1, momentum=0.8, dampening=0.25,
            weight_decay=0.1),
        sgd("sgd, nesterov, decay", lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
        sgd("sgd, maximize, momentum, decay", lr=0.1, momentum=0.9, weight_decay=0.2,
            maximize=True),
        sgd("sgd, groups", lr=0.1, momentum=0.9, weight_decay=0.1,
            head={"lr": 0.02, "weight_decay": 0.0}),
        adam("adam", "adam", lr=0.01),
        adam("adam", "adam, decay", lr=0.01, weight_decay=0.5),
        adam("adam", "adam, betas, eps, maximize", lr=0.1, betas=(0.5, 0.7), eps=0.1,
             maximize=True, weight_decay=0.1),
        adam("adamw", "adamw", lr=0.01),
        adam("adamw", "adamw, decay, betas", lr=0.1, weight_decay=0.5, betas=(0.95, 0.98)),
        adam("adamw", "adamw, maximize, groups", lr=0.1, maximize=True,
             head={"lr": 0.3, "weight_decay": 0.2}),
        rmsprop("rmsprop"),
        rmsprop("rmsprop, decay, alpha, eps", lr=0.1, weight_decay=0.3, alpha=0.5, eps=0.1),
        rmsprop("rmsprop, momentum", lr=0.05, momentum=0.9),
        rmsprop("rmsprop, centered", lr=0.05, centered=True),
        rmsprop("rmsprop, centered, momentum, decay, maximize", lr=0.05, centered=True,
                momentum=0.8, weight_decay=0.1, maximize=True),
        rmsprop("rmsprop, groups", lr=0.1, momentum=0.9, head={"lr": 0.02, "alpha": 0.9}),
        lamb("lamb", lr=0.1),
        lamb("lamb, no clipping", lr=0.1, max_grad_norm=None),
        lamb("lamb, rare clipping", lr=0.1, max_grad_norm=10.0),
        lamb("lamb, no decay", lr=0.1, weight_decay=0.0),
        lamb("lamb, always_adapt", lr=0.1, weight_decay=0.0, always_adapt=True),
        lamb("lamb, trust_clip", lr=0.1, weight_decay=0.1, trust_clip=True),
        lamb("lamb, no averaging", lr=0.01, grad_averaging=False),
        lamb("lamb, no bias correction", lr=0.1, bias_correction=False),
        lamb("lamb, decoupled", lr=0.1, weight_decay=0.2, decoupled_decay=True),
        lamb("lamb, groups", lr=0.1, head={"lr": 0.01, "weight_decay": 0.0}),
    ]
    return {"steps": STEPS, "shapes": SHAPES, "values": numbers(VALUES),
            "grads": [numbers(g) for g in GRADS], "cases": cases}


def lr_sequence(make, steps, base=0.1, kind="sgd"):
    p = torch.zeros(1, requires_grad=True)
    optimizer = (torch.optim.SGD([p], lr=base, momentum=0.9) if kind == "sgd"
                 else torch.optim.AdamW([p], lr=base))
    scheduler = make(optimizer)
    rates, momenta = [], []
    for t in range(steps):
        if t > 0:
            optimizer.step()
            scheduler.step()
        group = optimizer.param_groups[0]
        rates.append(group["lr"])
        momenta.append(group["momentum"] if kind == "sgd" else group["betas"][0])
    return rates, momenta


def torch_schedule(name, kind, options, make, steps, base=0.1, optimizer="sgd"):
    rates, momenta = lr_sequence(make, steps, base, optimizer)
    return {"case": name, "schedule": kind, "options": options, "base": base, "lrs": rates,
            "momenta": momenta, "optimizer": optimizer}


def formula(name, kind, options, f, steps, base=0.1):
    return {"case": name, "schedule": kind, "options": options, "base": base,
            "lrs": [f(t) * base for t in range(steps)]}


def linear_warmup(warmup, total, steps):
    def f(t):  # colossalai.nn.lr_scheduler.LinearWarmupLR
        if t < warmup:
            return (t + 1) / (warmup + 1)
        return 0 if t >= total else (total - t) / (total - warmup)
    return formula(f"linear_warmup {warmup} of {total}", "linear_warmup",
                   {"warmup_steps": warmup, "total_steps": total}, f, steps)


def cosine_warmup(warmup, total, steps):
    def f(t):  # colossalai.nn.lr_scheduler.CosineAnnealingWarmupLR, eta_min 0
        if t < warmup:
            return (t + 1) / warmup
        if t >= total:
            return 0
        return (1 + math.cos(math.pi * (t - warmup) / (total - warmup))) / 2
    return formula(f"cosine_warmup {warmup} of {total}", "cosine_warmup",
                   {"warmup_steps": warmup, "total_steps": total}, f, steps)


def hugging_face(kind, warmup, total, steps, num_cycles=0.5):
    def linear(t):  # transformers.get_linear_schedule_with_warmup
        if t < warmup:
            return t / max(1, warmup)
        return max(0.0, (total - t) / max(1, total - warmup))

    def cosine(t):  # transformers.get_cosine_schedule_with_warmup
        if t < warmup:
            return t / max(1, warmup)
        progress = (t - warmup) / max(1, total - warmup)
        return max(0.0, 0.5 * (1 + math.cos(math.pi * num_cycles * 2 * progress)))
    options = {"warmup_steps": warmup, "total_steps": total}
    if kind == "cosine":
        options["num_cycles"] = num_cycles
    return formula(f"{kind}_schedule_with_warmup {warmup} of {total}, {num_cycles} cycles",
                   f"{kind}_schedule_with_warmup", options, linear if kind == "linear" else cosine,
                   steps)


def timm_cosine(steps, steps_per_epoch=0, **options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = timm.scheduler.CosineLRScheduler(optimizer, **options)
    rates = []
    for t in range(steps):
        scheduler.step(t // steps_per_epoch if steps_per_epoch else t)
        rates.append(optimizer.param_groups[0]["lr"])
    if steps_per_epoch:
        options["steps_per_epoch"] = steps_per_epoch
    return {"case": f"timm_cosine {options}", "schedule": "timm_cosine", "options": options,
            "base": 0.1, "lrs": rates}


def part_named(name):
    """A schedule that lr_scheduler_test.cpp knows by this name."""
    s = torch.optim.lr_scheduler
    return {"linear": lambda o: s.LinearLR(o, 0.25, 1.0, 4),
            "cosine": lambda o: s.CosineAnnealingLR(o, 6, 0.01),
            "exponential": lambda o: s.ExponentialLR(o, 0.8),
            "constant": lambda o: s.ConstantLR(o, 0.5, 3),
            "step": lambda o: s.StepLR(o, 2, 0.5),
            "multi_step": lambda o: s.MultiStepLR(o, [1, 3], 0.5),
            "polynomial": lambda o: s.PolynomialLR(o, 8, 2.0),
            "multiplicative": lambda o: s.MultiplicativeLR(o, lambda t: 1 - 0.3 / t)}[name]


def sequential(name, parts, milestones, steps):
    """PyTorch's SequentialLR."""
    s = torch.optim.lr_scheduler
    return torch_schedule(f"sequential {name}", "sequential",
                          {"parts": parts, "milestones": milestones},
                          lambda o: s.SequentialLR(o, [part_named(part)(o) for part in parts],
                                                   milestones), steps)


def chained(name, parts, steps):
    s = torch.optim.lr_scheduler
    return torch_schedule(f"chained {name}", "chained", {"parts": parts},
                          lambda o: s.ChainedScheduler([part_named(part)(o) for part in parts]),
                          steps)


def plateau(metrics, **options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for metric in metrics:
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    return {"options": options, "metrics": metrics, "lrs": rates}


def plateaus():
    generator = torch.Generator().manual_seed(3)
    noise = torch.rand(60, generator=generator).tolist()
    falling = [2 * 0.9 ** t + 0.2 * noise[t] for t in range(60)]
    rising = [-x for x in falling]
    stuck = [1.0] * 30
    return [plateau(falling, patience=2), plateau(falling, patience=0, factor=0.5),
            plateau(falling, patience=1, cooldown=3), plateau(falling, mode="min", patience=2,
                                                             threshold=0.1),
            plateau(falling, patience=2, threshold=0.05, threshold_mode="abs"),
            plateau(rising, mode="max", patience=2),
            plateau([-x for x in rising], mode="max", patience=1, threshold=0.01,
                    threshold_mode="abs", factor=0.3),
            plateau(stuck, patience=2, min_lr=0.004), plateau(stuck, patience=1, eps=1e-3)]


def schedules():
    s = torch.optim.lr_scheduler
    cases = [linear_warmup(*w) for w in [(0, 5, 8), (3, 10, 13), (5, 5, 8), (1, 1, 3)]]
    cases += [cosine_warmup(*w) for w in [(0, 5, 8), (3, 10, 13), (5, 5, 8)]]
    for T_max, eta_min, steps in [(10, 0.0, 45), (7, 0.01, 30), (1, 0.0, 6), (2, 0.02, 9)]:
        cases.append(torch_schedule(
            f"cosine T_max {T_max}", "cosine", {"T_max": T_max, "eta_min": eta_min},
            lambda o: s.CosineAnnealingLR(o, T_max, eta_min), steps))
    for total, power in [(5, 1.0), (10, 2.0), (1, 1.0), (7, 0.5)]:
        cases.append(torch_schedule(
            f"polynomial {total} {power}", "polynomial", {"total_steps": total, "power": power},
            lambda o: s.PolynomialLR(o, total, power), total + 4))
    for size, gamma in [(3, 0.1), (1, 0.5), (100, 0.1)]:
        cases.append(torch_schedule(
            f"step {size}", "step", {"step_size": size, "gamma": gamma},
            lambda o: s.StepLR(o, size, gamma), 12))
    for milestones in [[2, 5], [0, 3], [3, 3, 6], [5, 2], [], [50]]:
        cases.append(torch_schedule(
            f"multi_step {milestones}", "multi_step", {"milestones": milestones, "gamma": 0.5},
            lambda o: s.MultiStepLR(o, milestones, 0.5), 10))
    for gamma in [0.9, 1.0]:
        cases.append(torch_schedule(f"exponential {gamma}", "exponential", {"gamma": gamma},
                                    lambda o: s.ExponentialLR(o, gamma), 20))
    for factor, total in [(0.25, 4), (0.5, 1)]:
        cases.append(torch_schedule(
            f"constant {factor} for {total}", "constant", {"factor": factor, "total_steps": total},
            lambda o: s.ConstantLR(o, factor, total), 8))
    for start, end, total in [(1 / 3, 1.0, 5), (1.0, 0.1, 7), (0.5, 1.0, 1)]:
        cases.append(torch_schedule(
            f"linear {start:.2f} to {end} in {total}", "linear",
            {"start_factor": start, "end_factor": end, "total_steps": total},
            lambda o: s.LinearLR(o, start, end, total), total + 3))
    for warmup, total in [(0, 5), (3, 10), (5, 5), (1, 1)]:
        cases.append(hugging_face("linear", warmup, total, total + 3))
        cases.append(hugging_face("cosine", warmup, total, total + 3))
    cases.append(hugging_face("cosine", 2, 20, 26, num_cycles=2.5))
    cases += [timm_cosine(14, t_initial=10), timm_cosine(14, t_initial=10, lr_min=0.01, warmup_t=3,
                                                        warmup_lr_init=0.001),
              timm_cosine(18, t_initial=10, warmup_t=3, warmup_lr_init=0.001, warmup_prefix=True),
              timm_cosine(33, t_initial=10, cycle_limit=3, cycle_decay=0.5, lr_min=0.002),
              timm_cosine(40, t_initial=5, cycle_limit=3, cycle_mul=2.0, cycle_decay=0.7),
              timm_cosine(14, t_initial=10, k_decay=1.5),
              timm_cosine(30, steps_per_epoch=4, t_initial=6, warmup_t=2, warmup_lr_init=0.01)]
    for name, parts, milestones in [
            ("of warm-up and cosine", ["linear", "cosine"], [4]),
            ("of three", ["constant", "exponential", "step"], [2, 7]),
            ("that goes on late", ["cosine", "multi_step"], [9])]:
        cases.append(sequential(name, parts, milestones, 14))
    for name, parts in [("of constant and exponential", ["constant", "exponential"]),
                        ("of three", ["step", "linear", "polynomial"]),
                        ("of a product", ["multi_step", "multiplicative"])]:
        cases.append(chained(name, parts, 12))
    cases.append(torch_schedule("multiplicative", "multiplicative", {},
                                lambda o: s.MultiplicativeLR(o, lambda t: 1 - 0.3 / t), 12))
    for T_0, T_mult, eta_min, steps in [(4, 1, 0.0, 14), (3, 2, 0.01, 25), (1, 1, 0.02, 4),
                                        (2, 3, 0.0, 30)]:
        cases.append(torch_schedule(
            f"cosine_warm_restarts {T_0} {T_mult}", "cosine_warm_restarts",
            {"T_0": T_0, "T_mult": T_mult, "eta_min": eta_min},
            lambda o: s.CosineAnnealingWarmRestarts(o, T_0, T_mult, eta_min), steps))
    for more in [{}, {"step_size_down": 5}, {"mode": "triangular2"},
                 {"mode": "exp_range", "gamma": 0.9}, {"base_momentum": 0.5, "max_momentum": 0.7},
                 {"mode": "triangular2", "step_size_up": 1, "step_size_down": 1}]:
        for optimizer in ["sgd", "adamw"]:
            options = {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 3, **more}
            cases.append(torch_schedule(f"cyclic {more} {optimizer}", "cyclic", options,
                                        lambda o: s.CyclicLR(o, **options), 20,
                                        optimizer=optimizer))
    cases.append(torch_schedule("lambda 0.95^t", "lambda", {},
                                lambda o: s.LambdaLR(o, lambda t: 0.95 ** t), 10))
    for total, more in [(10, {}), (3, {}), (1, {}), (2, {}), (7, {"pct_start": 0.5}),
                        (12, {"three_phase": True}), (10, {"anneal_strategy": "linear"}),
                        (9, {"pct_start": 0.0}), (9, {"pct_start": 1.0}),
                        (8, {"div_factor": 10.0, "final_div_factor": 100.0}),
                        (8, {"base_momentum": 0.5, "max_momentum": 0.7})]:
        for optimizer in ["sgd", "adamw"]:
            options = {"max_lr": 0.3, "total_steps": total, **more}
            cases.append(torch_schedule(f"one_cycle {total} {more} {optimizer}", "one_cycle",
                                        options, lambda o: s.OneCycleLR(o, **options), total,
                                        optimizer=optimizer))
    return {"cases": cases, "plateaus": plateaus()}


def clipping():
    cases = []
    for scale in [1.0, 1e-3, 1e4]:
        for power in [2.0, 1.0, math.inf, 3.0, 0.5]:
            for max_norm in [1.0, 0.0, 5.0]:
                grads = {n: g * scale for n, g in GRADS[1].items()}
                parameters = []
                for g in grads.values():
                    parameters.append(torch.zeros_like(g, dtype=torch.float64).requires_grad_())
                    parameters[-1].grad = g.double()
                norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm, power)
                cases.append({"scale": scale, "power": "inf" if power == math.inf else power,
                              "max_norm": max_norm, "norm": norm.item(),
                              "grads": numbers(dict(zip(grads, [p.grad for p in parameters])))})
    return {"grads": numbers(GRADS[1]), "shapes": SHAPES, "cases": cases}


def long_runs():
    """100 steps in f64 of the rules that change each element by itself; the gradient of step t is
    sin(3 p + t / 7) + p / 10, and 0 in the first element."""
    start = [0.0, -1.5, -0.7, 0.2, 0.9, 1.4, 2.5]
    rules = [("Adadelta", {"lr": 0.5, "weight_decay": 0.1}), ("Adadelta", {"rho": 0.7}),
             ("Adagrad", {"lr": 0.1}),
             ("Adagrad", {"lr": 0.1, "lr_decay": 0.05, "initial_accumulator_value": 0.3,
                          "weight_decay": 0.1}),
             ("Adamax", {"lr": 0.02}), ("Adamax", {"betas": [0.8, 0.9], "maximize": True}),
             ("ASGD", {"lr": 0.05, "lambd": 0.01, "t0": 20}), ("ASGD", {"weight_decay": 0.1}),
             ("NAdam", {"lr": 0.01}),
             ("NAdam", {"betas": [0.7, 0.9], "weight_decay": 0.1, "momentum_decay": 0.05}),
             ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
             ("RAdam", {"lr": 0.01}), ("RAdam", {"betas": [0.8, 0.95], "weight_decay": 0.1}),
             ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
             ("Rprop", {"lr": 0.01}),
             ("Rprop", {"etas": [0.4, 1.3], "step_sizes": [1e-4, 0.1], "maximize": True})]
    pairs = {"betas": ("beta1", "beta2"), "etas": ("eta_minus", "eta_plus"),
             "step_sizes": ("step_size_min", "step_size_max")}
    cases = []
    for kind, options in rules:
        p = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        optimizer = getattr(torch.optim, kind)([p], foreach=False, **options)
        for step in range(100):
            p.grad = torch.sin(3 * p.detach() + step / 7) + p.detach() / 10
            p.grad[0] = 0
            optimizer.step()
        ours = {n: v for n, v in options.items() if n not in pairs}
        for pair, names in pairs.items():
            ours.update(zip(names, options.get(pair, [])))
        state = optimizer.state[p]
        cases.append({"rule": kind.lower(), "options": ours, "values": p.tolist(),
                      "states": {n: state[n].tolist() for n in
                                 ("square_avg", "acc_delta", "exp_avg", "exp_avg_sq", "exp_inf", "ax",
                                  "prev", "step_size") if n in state}})
    return {"start": start, "cases": cases}


def averages():
    """Averages of timm's ModelEmaV3 of three parameters that move in each step."""
    cases = []
    for given, options in [(False, {"decay": 0.9}), (True, {"decay": 0.9}),
                           (True, {"decay": 0.999, "use_warmup": True}),
                           (True, {"decay": 0.6, "use_warmup": True, "warmup_gamma": 2.0,
                                   "warmup_power": 0.75}),
                           (True, {"decay": 0.99, "use_warmup": True, "min_decay": 0.5,
                                   "update_after_step": 3})]:
        generator = torch.Generator().manual_seed(5)
        model = torch.nn.Module()
        model.w = torch.nn.Parameter(torch.randn(3, generator=generator))
        ema = timm.utils.ModelEmaV3(model, **options)
        values, decays, seen = [model.w.tolist()], [], []
        for step in range(1, 12):
            model.w.data += torch.randn(3, generator=generator)
            count = step if given else None
            decays.append(ema.get_decay(count))
            ema.update(model, step=count)
            values.append(model.w.tolist())
            seen.append(ema.module.w.tolist())
        cases.append({"options": options, "steps": given, "values": values, "decays": decays,
                      "averages": seen})
    return cases


def layer_decays():
    """Scale of the learning rate and weight decay of each parameter of a ViT, by timm."""
    cases = []
    for depth, decay in [(3, 0.5), (12, 0.75), (1, 0.9)]:
        model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=depth, num_classes=5)
        groups = timm.optim.param_groups_layer_decay(model, 0.05, model.no_weight_decay(),
                                                     layer_decay=decay)
        of = {id(p): (g["lr_scale"], g["weight_decay"]) for g in groups for p in g["params"]}
        cases.append({"depth": depth, "layer_decay": decay,
                      "parameters": {n: of[id(p)] for n, p in model.named_parameters()}})
    return cases


def write(name, value):
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps(value) + "\n")


write("optimizers", optimizers())
write("schedules", schedules())
write("clipping", clipping())
write("averages", averages())
write("layer_decay", layer_decays())
write("long_runs", long_runs())
