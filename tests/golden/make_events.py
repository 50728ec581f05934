"""Texts as records of TensorFlow's, framed by tensorboard: tests/golden/booster/records.json. And a
check of a folder of event files: EventAccumulator, which TensorBoard reads them with, must find the
scalars. Needs tensorboard; usage: python3 make_events.py [FOLDER]
"""

import io
import json
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

TEXTS = ["", "a", "brain.Event:2", "é and more", "x" * 300, "\u0000\u0001"]


def show(folder):
    events = EventAccumulator(folder)
    events.Reload()
    for tag in events.Tags()["scalars"]:
        scalars = events.Scalars(tag)
        print(f"{tag}: steps {[s.step for s in scalars]}, last {scalars[-1].value:.6g}")


def main():
    if len(sys.argv) > 1:
        show(sys.argv[1])
        return
    rows = []
    for text in TEXTS:
        target = io.BytesIO()
        RecordWriter(target).write(text.encode())
        rows.append({"data": text, "record": target.getvalue().hex()})
    file = pathlib.Path(__file__).parent / "booster/records.json"
    file.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
