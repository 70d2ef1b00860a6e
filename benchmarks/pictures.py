r"""Draw the pictures of README and docs from measured figures.

    python benchmarks/pictures.py LEDGER.json [--model MODEL] [--page REPORT.html] --out docs/images

LEDGER.json is what ``lite-nlp compress --json`` printed for MODEL; ``make demo`` leaves one with the files. Writes
``one-model.svg`` (budget, size and score from fp32 to the file), ``budget-terminal.svg`` (the table of ``lite-nlp
budget``) and, with --page, ``report.png``: the top of a page of ``lite-nlp report --html`` in Chromium.
"""

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from lite_nlp import check_budget
from lite_nlp.budget.reporting.charts import short_count
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.scores import metric_label
from lite_nlp.budget.reporting.size_quality import size_text
from lite_nlp.budget.reporting.tables import budget_tables
from lite_nlp.core.files import write_text

TEMPLATE = Path(__file__).with_suffix(".svg.j2")

#: What a stage does, in words for someone who sees it for the first time.
STAGES = {
    "original": "fp32 weights",
    "structured": "channels, heads and layers removed",
    "pruned": "small weights set to zero",
    "finetuned": "the rest trained on",
    "kmeans": "8-bit shared weights",
    "grid": "few bits a weight, trained on",
    "entropy-coded": "the file to ship",
}

#: Most width of a bar, and heights, in units of the picture.
BAR = 372.0
TRACK = 250.0


def draw_model(ledger: Mapping[str, Any], budget: BudgetReport, *, title: str) -> str:
    """The picture of one model: its use of the budget, then size and score of each stage."""
    metric, rows = ledger["metric"], ledger["stages"]
    most = max(row["size_bytes"] for row in rows)
    stages = [
        {
            "name": row["stage"],
            "words": STAGES.get(row["stage"], ""),
            "width": BAR * row["size_bytes"] / most,
            "size": size_text(row["size_bytes"]),
            "score": f"{row['scores'][metric]:.1f}",
        }
        for row in rows
    ]
    first, last = rows[0], rows[-1]
    gauges = [
        {
            "name": verdict.name.replace(" (paper)", ""),
            "found": short_count(verdict.found),
            "limit": short_count(verdict.limit),
            "width": TRACK * min(1.0, verdict.found / verdict.limit),
            "share": f"{verdict.found / verdict.limit:.0%}",
            "over": not verdict.within,
        }
        for verdict in budget.verdicts
    ]
    css = (Path(TEMPLATE.parents[1]) / "lite_nlp/budget/reporting/templates/charts.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=title,
        css=environment.from_string(css).render(),
        gauges=gauges,
        stages=stages,
        label=metric_label(metric),
        text=ledger["text"],
        src_len=budget.count.src_len,
        tgt_len=budget.count.tgt_len,
        ratio=f"{first['size_bytes'] / last['size_bytes']:.1f}",
        change=f"{last['scores'][metric] - first['scores'][metric]:+.1f}",
        bar=BAR,
        track=TRACK,
        height=250 + 40 * len(stages),
    )


def draw_terminal(budget: BudgetReport) -> str:
    """The end of the table of ``lite-nlp budget``, from the parts on, as a terminal of 80 columns shows it."""
    console = Console(file=io.StringIO(), width=80, record=True, force_terminal=True, color_system="truecolor")
    *_, parts, _, growth, _, limits = budget_tables(budget).renderables  # type: ignore[attr-defined]
    for part in (parts, "", growth, "", limits):
        console.print(part, highlight=False)
    # Without rich's reference to a font of a server, which a picture in a page may not load.
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="lite-nlp budget", code_format=plain, unique_id="budget")


def shoot(page: Path, out: Path, *, width: int = 1060, height: int = 2240) -> None:
    """The top of a page as a PNG of few colours."""
    from PIL import Image

    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    browser = next((found for name in names if name and (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("expected chromium on the path or in CHROMIUM, found none; `make chromium` installs it")
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "page.png"
        options: Sequence[str] = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}"),
            *("--blink-settings=preferredColorScheme=1", f"--window-size={width},{height}", f"--screenshot={picture}"),
        )
        subprocess.run([browser, *options, page.resolve().as_uri()], check=True, capture_output=True)
        with Image.open(picture) as image:
            image.convert("RGB").quantize(64).save(out, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of README and docs.")
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--model", default=None, help="what was compressed; the default shipped model")
    parser.add_argument("--page", type=Path, help="a page of lite-nlp report --html")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    ledger = json.loads(arguments.ledger.read_text(encoding="utf-8"))
    budget = check_budget(arguments.model)
    if budget.target != ledger["model"]:
        raise SystemExit(f"{arguments.ledger}: expected the ledger of {budget.target}, found that of {ledger['model']}")
    title = f"From fp32 to the file on the phone: {budget.target}"
    write_text(arguments.out / "one-model.svg", draw_model(ledger, budget, title=title))
    write_text(arguments.out / "budget-terminal.svg", draw_terminal(budget))
    if arguments.page is not None:
        shoot(arguments.page, arguments.out / "report.png")


if __name__ == "__main__":
    main()
