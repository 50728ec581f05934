"""Joins rows of op_sweep and of peers/op_sweep.py: `op_sweep_table.py FILE [--rows N] [--text TEXT]`.

Of several runs of a row the fastest counts. Prints, for each number of threads, the share of rows that are
slower than PyTorch's by more than 10 %, and the slowest rows.
"""
import argparse
import collections
import json


def fastest(path):
    best = collections.defaultdict(dict)
    for line in open(path):
        row = json.loads(line) if line.startswith("{") else {}
        if "order" not in row:
            continue
        key = (row["threads"], row["name"], row["order"], row["dtype"])
        who = "torch" if "torch" in row.get("versions", {}) else "booster"
        best[key][who] = min(row["seconds"], best[key].get(who, float("inf")))
    return {key: pair for key, pair in best.items() if len(pair) == 2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--text", default="")
    options = parser.parse_args()
    rows = {key: pair for key, pair in fastest(options.file).items()
            if options.text in f" {key[1]} {key[2]} {key[3]} "}
    for threads in sorted({key[0] for key in rows}):
        ratios = sorted(((pair["booster"] / pair["torch"], key, pair) for key, pair in rows.items()
                         if key[0] == threads), reverse=True)
        slower = sum(ratio > 1.1 for ratio, _, _ in ratios)
        faster = sum(ratio < 1 / 1.1 for ratio, _, _ in ratios)
        print(f"{threads} thread(s): {len(ratios)} rows, {slower} ({100 * slower / len(ratios):.1f} %) slower by "
              f"over 10 %, {faster} faster by over 10 %; {sum(ratio > 1.5 for ratio, _, _ in ratios)} over 1.5 x")
        print("| function | order | dtype | booster, us | torch, us | ratio |\n|---|---|---|---|---|---|")
        for ratio, (_, name, order, dtype), pair in ratios[:options.rows]:
            print(f"| {name} | {order} | {dtype} | {1e6 * pair['booster']:.3g} | {1e6 * pair['torch']:.3g} | "
                  f"{ratio:.2f} |")


if __name__ == "__main__":
    main()
