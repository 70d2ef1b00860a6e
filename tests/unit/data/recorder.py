"""A receiver of progress that remembers what it is told."""


class Recorder:
    """Pieces of work in order: task, steps done, steps expected."""

    def __init__(self):
        self.seen = []

    def start(self, task, total):
        self.seen.append((task, 0, total))

    def advance(self, steps=1):
        task, done, total = self.seen[-1]
        self.seen[-1] = (task, done + steps, total)
