import hashlib
import mmap
import sys

import numpy as np
import pytest

from lite_nlp.budget.traced.graphs import GraphWork, Polynomial
from lite_nlp.core.errors import ModelError
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.export.runtime.device import (
    count_data_memory,
    describe_device,
    parse_cpu_info,
    read_data_memory,
    read_memory,
    reset_peak_memory,
)
from lite_nlp.export.runtime.latency import LatencyPlan, Summary, measure_latency, tokens_sha256
from lite_nlp.export.runtime.meters import MeteredBeamModel, MeteredModel, TranslationMeter
from tests.unit.decoding.beam_double import BeamDouble

START, STEP, OPEN, LIBRARY, FILE = 5.0, 2.0, 40.0, 300.0, 70.0

#: 100 S + C to encode, 7 for a step with no regard to sizes.
WORK = GraphWork(
    encode={"matmul": Polynomial(((100, 1, 0),)), "layer_norm": Polynomial(((1, 0, 1),))},
    decode_step={"matmul": Polynomial(((7, 0, 0),))},
)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class SlowModel:
    """Ends at step number ``length``; each call takes its time on a clock of its own."""

    alive = 0

    def __init__(self, clock, lengths=(3,)):
        SlowModel.alive += 1
        self.clock, self.lengths, self.calls, self.fed = clock, lengths, 0, 0

    def __del__(self):
        SlowModel.alive -= 1

    def start(self, src_tokens, src_mask, capacity):
        self.clock.now += START
        self.calls += 1
        return 0

    def step(self, tokens, state):
        self.clock.now += STEP
        self.fed += len(tokens)
        length = self.lengths[(self.calls - 1) % len(self.lengths)]
        logits = np.zeros((len(tokens), 6), np.float32)
        logits[:, 2 if state + 1 == length else 3] = 9
        return logits, state + 1

    def reorder(self, state, rows):
        return state


def measure(lengths=(3,), sources=([3, 4], [5]), warmup=2, repeats=3):
    clock, opened = Clock(), []

    def load_library():
        clock.now += LIBRARY

    def open_file():
        clock.now += FILE
        return "file"

    def open_model(file):
        assert file == "file"
        assert SlowModel.alive == 0
        clock.now += OPEN / (1 + len(opened))
        opened.append(True)
        return TranslationMeter(SlowModel(clock, lengths), sources, SearchOptions(), work=WORK, clock=clock)

    done = []
    row = measure_latency(
        open_file,
        open_model,
        LatencyPlan(examples=len(sources), warmup=warmup, repeats=repeats),
        load_library=load_library,
        progress=lambda: done.append(clock.now),
        clock=clock,
    )
    assert len(opened) == 2
    return row, done


def test_times_are_those_of_the_clock():
    row, done = measure()
    assert (row.load_cold_ms, row.load_warm_ms) == (1e3 * (LIBRARY + OPEN), 1e3 * OPEN / 2)
    assert row.opening.ms == 1e3 * (FILE + OPEN + START + STEP)
    assert row.to_json()["opening"] == {"ms": row.opening.ms, "memory_bytes": row.opening.memory}
    assert row.first_token_ms == Summary(p50=7e3, p90=7e3, mean=7e3, min=7e3, max=7e3)
    assert row.sentence_ms == Summary(p50=11e3, p90=11e3, mean=11e3, min=11e3, max=11e3)
    assert row.seconds == 2 * 3 * (START + 3 * STEP)
    assert len(done) == 2 * (2 + 3)
    report = row.to_json()
    # Two tokens and an end mark for each of two sentences, 11 seconds each.
    assert report["tokens_per_s"] == pytest.approx(4 / 22, abs=1e-3)
    # Steps for a source of n tokens: 2 n + 10, which is the capacity; the end mark is a source token too.
    assert report["macs"] == row.macs == (100 * 3 + 14 + 3 * 7) + (100 * 2 + 12 + 3 * 7)
    assert report["thermal"] is None


def test_sentences_of_several_lengths():
    row, _ = measure(lengths=(2, 6), warmup=0, repeats=2)
    assert (row.sentence_ms.min, row.sentence_ms.max) == (9e3, 17e3)
    assert row.sentence_ms.p50 == 13e3
    assert row.sentence_ms.p90 == pytest.approx(17e3)
    assert row.tgt_tokens == 1 + 5
    assert row.tokens_sha256 == hashlib.sha256(b"3\n3 3 3 3 3\n").hexdigest()


def test_no_warmup_and_one_repeat():
    row, done = measure(warmup=0, repeats=1)
    assert len(done) == 2
    assert row.repeats == 1


def test_a_sentence_that_comes_out_otherwise_is_an_error():
    with pytest.raises(ModelError, match=r"sentence 1: expected the same tokens every time, found \[3\] and \[3, 3\]"):
        measure(lengths=(2, 2, 3), warmup=0, repeats=2)


def test_the_work_of_every_row_counts():
    inner = SlowModel(Clock(), (4,))
    metered = MeteredModel(inner, WORK, inner.clock)
    search(metered, [[3], [4, 5, 4]], SearchOptions(beam_size=3))
    # Two rows padded to four source tokens, 16 slots.
    assert metered.macs == 2 * (100 * 4 + 16) + 7 * inner.fed
    assert inner.fed > 2 * 4
    unknown = MeteredModel(SlowModel(Clock()), None, Clock())
    search(unknown, [[3]], SearchOptions())
    assert unknown.macs == 0


GROWING_WORK = GraphWork(
    encode={"matmul": Polynomial(((100, 1, 0),))}, decode_step={"matmul": Polynomial(((10, 0, 1), (1, 1, 0)))}
)


class FewRows(SlowModel):
    """Its steps attend to as many tokens as there have been."""

    most_rows = 5

    def __init__(self, clock, lengths):
        super().__init__(clock, lengths)
        self.rows = []

    def step_slots(self, state):
        return state + 1

    def step(self, tokens, state):
        self.rows.append(len(tokens))
        return super().step(tokens, state)


def test_steps_of_few_rows_count_at_the_slots_so_far():
    inner = FewRows(Clock(), (3,))
    metered = MeteredModel(inner, GROWING_WORK, inner.clock)
    search(metered, [[3, 4]], SearchOptions())
    assert metered.macs == 300 + sum(10 * slots + 3 for slots in (1, 2, 3))


def test_a_search_of_few_rows_takes_some_sentences_at_a_time():
    model = FewRows(Clock(), (2,))
    found = search(model, [[3], [4, 5], [3, 3, 3]], SearchOptions(beam_size=2))
    assert model.calls == 2
    assert max(model.rows) == 4
    assert [len(hypothesis.tokens) for hypothesis in found] == [1, 1, 1]
    # A beam of more rows than the model is fast for: all at once.
    wide = FewRows(Clock(), (2,))
    search(wide, [[3], [4, 5], [3, 3, 3]], SearchOptions(beam_size=6))
    assert wide.calls == 1


def test_steps_of_a_beam_count_at_the_slots_so_far():
    inner = SlowModel(Clock(), (4,))
    metered = MeteredBeamModel(BeamDouble(inner), GROWING_WORK, inner.clock)
    found = search(metered, [[3, 4]], SearchOptions(beam_size=2, min_length=3, max_steps=4))
    assert len(found[0].tokens) == 3
    # Three source tokens; two hypotheses, at one slot more each time.
    assert metered.macs == 300 + 2 * sum(10 * slots + 3 for slots in (1, 2, 3, 4))
    unknown = MeteredBeamModel(BeamDouble(SlowModel(Clock())), None, Clock())
    search(unknown, [[3]], SearchOptions(beam_size=2))
    assert unknown.macs == 0


def test_the_first_token_of_a_search_in_one_call_is_a_search_of_one_step():
    clock = Clock()
    options = SearchOptions(beam_size=2, min_length=2)
    row = measure_latency(
        lambda: None,
        lambda _: TranslationMeter(BeamDouble(SlowModel(clock)), [[3, 4]], options, work=WORK, clock=clock),
        LatencyPlan(examples=1, warmup=0, repeats=1),
        load_library=lambda: None,
        progress=lambda: None,
        clock=clock,
    )
    assert row.first_token_ms.p50 == 1e3 * (START + STEP)
    assert row.sentence_ms.p50 == 1e3 * (START + 3 * STEP)


def test_summary_interpolates():
    found = Summary.of([4.0, 1.0, 3.0, 2.0])
    assert (found.p50, found.p90, found.mean, found.min, found.max) == (2.5, pytest.approx(3.7), 2.5, 1.0, 4.0)
    assert Summary.of([1.23456]).to_json() == dict.fromkeys(("p50", "p90", "mean", "min", "max"), 1.235)
    with pytest.raises(ValueError, match="expected at least one, found none"):
        Summary.of([])


def test_hash_of_tokens():
    assert tokens_sha256([[3, 14], [], [5]]) == hashlib.sha256(b"3 14\n\n5\n").hexdigest()
    assert tokens_sha256([[3, 14]]) != tokens_sha256([[3], [14]])
    assert tokens_sha256([]) == hashlib.sha256(b"").hexdigest()


def test_processors():
    intel = "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nflags\t\t: sse avx2\npower management:\n\nprocessor\t: 1\n"
    assert parse_cpu_info(intel) == ("Some CPU @ 2GHz", ("avx2", "sse"))
    arm = "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU part\t: 0xd0b\n\nHardware\t: BCM2835\nModel\t\t: A board\n"
    assert parse_cpu_info(arm) == ("BCM2835", ("asimd", "asimddp", "fp"))
    assert parse_cpu_info("") == ("", ())


def test_this_machine():
    device = describe_device().to_json()
    assert device["cores"] >= 1
    assert device["kind"] in ("host", "board")
    assert device["os"]
    assert device["abi"]


MAPPINGS = """\
55d0c0a00000-55d0c0b00000 r-xp 00000000 fe:00 131 /usr/bin/python3.11
Size: 1024 kB
Rss: 1000 kB
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 [heap]
Rss: 8 kB
7f0000200000-7f0000300000 rw-p 00000000 00:00 0
Rss: 16 kB
7f0000400000-7f0000500000 r--p 00000000 fe:00 77 /tmp/lite-nlp-x/weights.bin (deleted)
Rss: 32 kB
7f0000600000-7f0000700000 r--p 00000000 fe:00 78 /usr/lib/libcrypto.so.3
Rss: 2000 kB
7f0000800000-7f0000900000 r-xp 00000000 00:00 0 [vdso]
Rss: 4 kB
"""


def test_memory_without_code_of_libraries():
    assert count_data_memory(MAPPINGS) == 1024 * (8 + 16 + 32 + 4)
    assert count_data_memory("") == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell")
def test_memory_is_that_of_this_process():
    size = 96 << 20
    reset_peak_memory()
    before = read_memory()
    assert before.peak >= before.resident > 1 << 20
    with mmap.mmap(-1, size) as block:
        for start in range(0, size, 1 << 20):
            block[start : start + (1 << 20)] = b"\1" * (1 << 20)
        during = read_memory()
        assert read_data_memory() > size * 3 // 4
    assert during.resident - before.resident > size * 3 // 4
    after = read_memory()
    assert during.resident - after.resident > size * 3 // 4
    assert after.peak >= during.resident - (1 << 20)
    reset_peak_memory()
    assert read_memory().peak < after.peak - size // 2
