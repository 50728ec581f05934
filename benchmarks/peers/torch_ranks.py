"""The work of build/benchmarks/all_reduce and ddp_step in PyTorch on gloo, in RANKS processes of one
thread: `torch_ranks.py all_reduce|ddp_step [options] [--json]`. Needs torch, and timm for ddp_step.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch_peer import timed

WARM_UP = 3
STEPS_OF_TURN = 2


def all_reduce(options):
    numbers = torch.ones(options.mb << 18)

    def body():
        dist.all_reduce(numbers)
        numbers.div_(options.ranks)

    timed(WARM_UP, body)
    dist.barrier()
    core = time.process_time()
    seconds = timed(options.steps, body)
    core = (time.process_time() - core) / options.steps
    return {"work": f"all-reduce of {options.mb} MiB, {options.ranks} ranks, torch gloo",
            "seconds": seconds[len(seconds) // 2], "seconds_min": seconds[0], "core_seconds": core}


def cut(model, ranks):
    """Attention and MLP of each block over the ranks. qkv is cut as one matrix, so heads get other
    rows than they should: the numbers are wrong, the time is right."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)

    plan = {"attn.qkv": ColwiseParallel(), "attn.proj": RowwiseParallel(),
            "mlp.fc1": ColwiseParallel(), "mlp.fc2": RowwiseParallel()}
    mesh = init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
        block.attn.num_heads //= ranks
        if hasattr(block.attn, "attn_dim"):
            block.attn.attn_dim //= ranks


def stages(model, ranks, style):
    """This rank's stages of a pipeline, and what makes their schedule. PyTorch's zero bubble wants
    two stages on a rank, one behind the other's."""
    from torch.distributed.pipelining import (PipelineStage, Schedule1F1B,
                                              ScheduleInterleavedZeroBubble)

    class Stage(torch.nn.Module):
        def __init__(self, at, count):
            super().__init__()
            size = len(model.blocks) // count
            self.blocks = model.blocks[at * size:(at + 1) * size]
            self.first, self.last = at == 0, at == count - 1
            if self.first:
                self.patch_embed, self.cls_token = model.patch_embed, model.cls_token
                self.pos_embed = model.pos_embed
            if self.last:
                self.norm, self.head = model.norm, model.head

        def forward(self, x):
            if self.first:
                x = self.patch_embed(x)
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
            x = self.blocks(x)
            return self.head(self.norm(x)[:, 0]) if self.last else x

    on_rank = 2 if style == "zero_bubble" else 1
    places = range(dist.get_rank(), ranks * on_rank, ranks)
    modules = torch.nn.ModuleList(Stage(at, ranks * on_rank) for at in places)

    def schedule(microbatches, loss):
        pieces = [PipelineStage(module, at, ranks * on_rank, torch.device("cpu"))
                  for module, at in zip(modules, places)]
        if style == "zero_bubble":
            return ScheduleInterleavedZeroBubble(pieces, microbatches, loss_fn=loss)
        return Schedule1F1B(pieces[0], microbatches, loss_fn=loss)

    return modules, schedule


def training(options, spread):
    import timm

    heads = {"num_heads": options.heads} if options.heads else {}
    model = timm.create_model(options.model, num_classes=1000, **heads).train()
    schedule = None
    if spread and options.plugin == "tensor":
        cut(model, options.ranks)
    elif spread and options.plugin == "pipeline":
        model, schedule = stages(model, options.ranks, options.pp_style)
    elif spread and options.plugin == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    elif spread:
        model = torch.nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, static_graph=options.static_graph)
    fused = not spread or options.plugin == "torch_ddp"  # sharded parameters have no such kernel
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, fused=fused)
    x = torch.randn(options.batch, 3, 224, 224)
    target = torch.arange(options.batch) % 1000
    lower = options.precision == "bf16"
    if schedule:
        pipeline = schedule(options.microbatches, lambda y, t: torch.nn.functional.cross_entropy(y.float(), t))

        def step_of_stage():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=lower):
                inputs = [x] if dist.get_rank() == 0 else []
                last = dist.get_rank() == options.ranks - 1
                pipeline.step(*inputs, target=target if last else None)
            optimizer.step()

        return step_of_stage

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=lower):
            output = model(x)
        torch.nn.functional.cross_entropy(output.float(), target).backward()
        optimizer.step()

    return step


def ddp_step(options):
    together, apart = training(options, True), training(options, False)
    for _ in range(WARM_UP):
        together()
        apart()
    seconds, alone, core = [], [], []
    for _ in range(options.steps):
        for step, sums in ((together, seconds), (apart if dist.get_rank() == 0 else None, alone)):
            dist.barrier()
            start, core_start = time.perf_counter(), time.process_time()
            for _ in range(STEPS_OF_TURN if step else 0):
                step()
            sums.append((time.perf_counter() - start) / STEPS_OF_TURN)
            if step is together:
                core.append((time.process_time() - core_start) / STEPS_OF_TURN)
    ratios = [a / b for a, b in zip(seconds, alone)]
    return {"work": f"{options.model}, batch {options.batch}, {options.ranks} ranks, {options.precision}",
            "seconds": statistics.median(seconds), "seconds_min": min(seconds),
            "seconds_alone": statistics.median(alone), "to_alone": statistics.median(ratios),
            "core_seconds": statistics.median(core)}


def run(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.set_num_threads(1)
    torch.manual_seed(42)
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    fields = {"benchmark": options.name, "versions": {"torch": torch.__version__}}
    fields.update({"all_reduce": all_reduce, "ddp_step": ddp_step}[options.name](options))
    if rank == 0:
        for line in [json.dumps(fields)] if options.json else [f"{k:20} {v}" for k, v in fields.items()]:
            print(line)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["all_reduce", "ddp_step"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--mb", type=int, default=64)
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--heads", type=int, default=0)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--pp_style", choices=["1f1b", "zero_bubble"], default="1f1b")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--plugin", choices=["torch_ddp", "fsdp", "tensor", "pipeline"], default="torch_ddp")
    parser.add_argument("--static_graph", action="store_true")
    parser.add_argument("--port", type=int, default=29517)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.multiprocessing.spawn(run, (options,), options.ranks)


if __name__ == "__main__":
    main()
