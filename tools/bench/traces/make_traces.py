# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of this folder; README.md says what they model.

usage: make_traces.py FOLDER

The same files each time: nothing is drawn from outside, and random numbers
come from the generator below, not from a library that may change.
"""

import pathlib
import sys

KIB, MIB = 1 << 10, 1 << 20


class Random:
    """A linear congruential generator; its upper bits are good enough."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407
                      ) % (1 << 64)
        return (self.state >> 33) % n


class Trace:
    def __init__(self):
        self.lines, self.next = [], 0

    def a(self, size, stream=0):
        self.lines.append(f"a {self.next} {size} {stream}")
        self.next += 1
        return self.next - 1

    def f(self, block):
        self.lines.append(f"f {block}")

    def scope(self, *blocks):
        for block in blocks:
            self.f(block)


def training():
    """A transformer of 8 layers, width 512, batch 4 x 512 tokens, fp16:
    forward keeps activations, backward frees them in reverse, the optimiser
    has temporaries; 6 steps, the sequence of every third one longer."""
    t = Trace()
    width, layers, batch = 512, 8, 4
    for _ in range(layers):
        for rows, columns in ((3, 1), (1, 1), (4, 1), (4, 1)):
            t.a(2 * rows * columns * width * width)  # weights
            t.a(8 * rows * columns * width * width)  # optimiser state
        for _ in range(6):
            t.a(2 * width)  # biases, norms
    for step in range(6):
        tokens = batch * (640 if step % 3 == 2 else 512)
        inputs = t.a(8 * tokens, 1)
        kept = []
        for _ in range(layers):
            kept.append([t.a(2 * tokens * width), t.a(6 * tokens * width)])
            scores = t.a(2 * 16 * tokens * tokens // batch)
            kept[-1] += [scores, t.a(4 * tokens), t.a(2 * tokens * width)]
            workspace = t.a(8 * MIB)
            kept[-1] += [t.a(8 * tokens * width), t.a(8 * tokens * width)]
            t.f(workspace)
        logits = t.a(2 * tokens * 8192)
        loss = t.a(4)
        gradients = []
        upstream = t.a(2 * tokens * width)
        for activations in reversed(kept):
            workspace = t.a(8 * MIB)
            next_upstream = t.a(2 * tokens * width)
            for activation in reversed(activations):
                t.f(activation)
            for rows in (3, 1, 4, 4):
                gradients.append(t.a(2 * rows * width * width))
            t.scope(workspace, upstream)
            upstream = next_upstream
        t.scope(upstream, logits, inputs)
        for gradient in gradients:
            temporary = t.a(4 * width * width)
            t.scope(temporary, gradient)
        t.f(loss)
    return t.lines


def inference():
    """24 requests at a time, each with a cache of keys and values that grows
    by a page of 16 tokens; now and then one is moved to a larger block, ends,
    and another begins with a prompt of its own length."""
    t, random = Trace(), Random(11)
    per_token = 2 * 2 * 128 * 8  # bytes of one layer's keys and values

    class Request:
        def __init__(self):
            self.tokens = 16 + random.below(900)
            self.left = 40 + random.below(400)
            self.cache = [t.a(per_token * self.tokens) for _ in range(4)]

        def step(self):
            self.left -= 1
            self.tokens += 1
            if self.tokens % 64 == 0:  # grow: copy into a larger one
                for i, old in enumerate(self.cache):
                    self.cache[i] = t.a(per_token * (self.tokens + 64))
                    t.f(old)
            return self.left > 0

        def end(self):
            t.scope(*self.cache)

    requests = [Request() for _ in range(24)]
    for step in range(420):
        hidden = t.a(2 * 4096 * len(requests))
        logits = t.a(4 * 32000 * len(requests))
        scratch = t.a((1 + random.below(24)) * 256 * KIB)
        t.scope(scratch, hidden)
        for i, request in enumerate(requests):
            if not request.step():
                request.end()
                requests[i] = Request()
        t.f(logits)
    for request in requests:
        request.end()
    return t.lines


def mixed():
    """64 live blocks, one freed at random and one allocated, sizes spread over
    all classes; four streams."""
    t, random = Trace(), Random(5)
    live = []

    def size():
        kind = random.below(10)
        if kind < 5:
            return 1 + random.below(64 * KIB)
        if kind < 8:
            return 1 + random.below(2 * MIB)
        return MIB + random.below(30 * MIB if kind == 9 else 9 * MIB)

    for _ in range(64):
        live.append(t.a(size(), random.below(4)))
    for _ in range(4000):
        at = random.below(len(live))
        t.f(live[at])
        live[at] = t.a(size(), random.below(4))
    t.scope(*live)
    return t.lines


def main():
    folder = pathlib.Path(sys.argv[1])
    for make in (training, inference, mixed):
        about = " ".join(make.__doc__.split())
        text = "\n".join([f"# {about}", *make()]) + "\n"
        (folder / f"{make.__name__}.trace").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
