"""Markdown tables of the results of compare.sh: table.py FILE (one JSON object a line).

Of several runs of the same work the fastest counts, so that a disturbance of one does not matter.
If memory is the bound it is the median, since the fastest run is just the one with the cores
farthest apart.
"""
import json
import sys


def chosen(runs):
    in_order = sorted(runs, key=lambda run: run["seconds"])
    return in_order[len(runs) // 2 if runs[0]["benchmark"] == "optimizer_step" else 0]


def share(value):
    return f"{value:.2f}" if value else "-"


def time(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            break
    return f"{seconds * scale:.3g} {unit}"


def is_peer(run):
    return "torch" in run.get("versions", {})


def collect(runs):
    """Our runs and the peer's, grouped by work; a peer's run follows ours of the same work."""
    ours, theirs, key = {}, {}, None
    for run in runs:
        if not is_peer(run):
            key = (run["benchmark"], run["work"], run.get("threads"))
        (theirs if is_peer(run) else ours).setdefault(key, []).append(run)
    return ours, theirs


def print_pairs(ours, theirs):
    print("| work | booster | PyTorch | faster | of oneDNN's bound | PyTorch of the same bound |")
    print("|---|---|---|---|---|---|")
    for our, their in zip(ours, theirs):
        bound = our.get("bound_gflops")
        print(f"| {our['work']} | {time(our['seconds'])} | {time(their['seconds'])} "
              f"| {their['seconds'] / our['seconds']:.2f} x | {share(our.get('of_bound'))} "
              f"| {share(bound and their['gflops'] / bound)} |")


def fastest_parts(runs):
    """The fastest microseconds of each part of a benchmark that measures several."""
    return {name: min(run["microseconds"][name] for run in runs) for name in runs[0]["microseconds"]}


def print_parts(ours, theirs):
    print("| work | booster | PyTorch | faster |")
    print("|---|---|---|---|")
    peers = fastest_parts(theirs)
    for name, our in fastest_parts(ours).items():
        print(f"| {name} | {time(our / 1e6)} | {time(peers[name] / 1e6)} | {peers[name] / our:.2f} x |")


def print_alone(runs):
    print("| work | threads | measured | images/s | peak of tensors | system allocations |")
    print("|---|---|---|---|---|---|")
    for run in runs:
        measured = time(run["seconds"]) if "seconds" in run else f"{run['megabytes']} MB"
        images = f"{run['images_per_s']:.1f}" if "images_per_s" in run else "-"
        peak = f"{run['peak_bytes'] / 1e9:.2f} GB" if "peak_bytes" in run else "-"
        print(f"| {run['work']} | {run.get('threads', '-')} | {measured} | {images} | {peak} "
              f"| {run.get('system_allocations', '-')} |")


def main(path):
    with open(path) as file:
        ours, theirs = collect([json.loads(line) for line in file])
    print_pairs([chosen(ours[key]) for key in theirs], [chosen(theirs[key]) for key in theirs])
    for key in theirs:
        if "microseconds" in ours[key][0]:
            print()
            print_parts(ours[key], theirs[key])
    alone = [runs for key, runs in ours.items() if key not in theirs or "peak_bytes" in runs[0]]
    if len(ours) > 1:
        print()
        print_alone([chosen(runs) if "seconds" in runs[0] else runs[0] for runs in alone])


main(sys.argv[1])
