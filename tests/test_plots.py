"""Charts: valid SVG that says in words what it shows, for light and dark pages."""

import dataclasses
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.synthetic import make
from tests.test_report import full
from warpsim import plots
from warpsim.errors import InputError, UnsupportedError
from warpsim.svg import Axis, Canvas, Drawing

SVG = "{http://www.w3.org/2000/svg}"


def faster(factor: float) -> object:
    result = full()
    metrics = {**result.metrics, "gpu__time_duration.sum": result.time_ns / factor}
    return dataclasses.replace(result, metrics=metrics)


CHARTS = [
    plots.memory_chart(full()),
    plots.roofline(full()),
    plots.roofline(full(), full()),
    plots.timeline(full()),
    plots.in_flight(full()),
    plots.parity((full(), faster(1.05)), (full(), faster(0.5)), (full(), faster(2))),
]


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_is_svg_that_stands_alone_in_light_and_dark(chart: Drawing, tmp_path: Path) -> None:
    chart.save(tmp_path / "chart.svg")
    text = (tmp_path / "chart.svg").read_text()
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert text.count("prefers-color-scheme:dark") == 1
    assert "$" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|url\(|NaN|inf", text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for mark in (*root.iter(f"{SVG}text"), *root.iter(f"{SVG}circle")):
        x, y = (float(mark.attrib[name]) for name in (("x", "y") if mark.tag == f"{SVG}text" else ("cx", "cy")))
        assert 0 <= x <= width
        assert 0 <= y <= height
    assert "xmlns" not in chart.inline
    assert "max-width" in chart._repr_html_()


@pytest.mark.parametrize("chart", CHARTS)
def test_every_class_a_chart_uses_has_a_style(chart: Drawing) -> None:
    used = {name for names in re.findall(r'class="([^"]+)"', chart.inline) for name in names.split()}
    styled = set(re.findall(r"\.([a-z]+)[{ ]", chart.document)) | {"chart"}
    assert used <= styled


def test_text_alternatives_give_the_figures() -> None:
    memory, roofline, _, timeline, in_flight, parity = (
        ET.fromstring(chart.document).attrib["aria-label"] for chart in CHARTS
    )
    assert "L2 read 102.4 kB" in memory
    assert "51.2 kB between its sides" in memory
    assert "over DRAM bytes: 0.00977 FLOP a byte" in roofline
    assert "bytes in flight: mean 1 MB, most 2 MB, Little's law asks for 2.88 MB" in timeline
    assert "the peak of 4.8 TB/s asks for 21.82 kB" in in_flight
    assert parity == "Predicted against measured time: 1 of 3 within 10 %"


def test_what_a_chart_lacks_is_said() -> None:
    bare = dataclasses.replace(full(), derived={**full().derived, "timeline": {}})
    with pytest.raises(InputError, match="made: this result has no series over time"):
        plots.timeline(bare)
    with pytest.raises(InputError, match="no pair"):
        plots.parity()
    with pytest.raises(InputError, match="list given to a plot; each argument is a Result"):
        full().plot_roofline([full()])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"p\.jpg: charts are written as \.svg or \.png"):
        CHARTS[0].save("p.jpg")
    unknown = {**full().derived, "bandwidth": {**full().derived["bandwidth"], "peak": None}}
    with pytest.raises(InputError, match="no roofline"):
        plots.roofline(dataclasses.replace(full(), derived=unknown))


def test_results_plot_themselves() -> None:
    result = full()
    assert result.plot_memory_chart() == plots.memory_chart(result)
    assert result.plot_roofline(result) == plots.roofline(result, result)
    assert result.plot_timeline() == plots.timeline(result)
    assert result.plot_in_flight() == plots.in_flight(result)
    assert result.plot_parity(result) == plots.parity((result, result))


def test_ticks_are_round() -> None:
    assert Axis(0, 9, 0, 100).ticks(4) == [0, 2, 4, 6, 8]
    assert Axis(0.05, 2000, 0, 100, log=True).ticks() == [0.1, 1, 10, 100, 1000]
    assert Axis(3, 70, 0, 100, log=True).ticks() == [5, 10, 20, 50]
    assert Axis(1, 100, 0, 100, log=True).at(10) == pytest.approx(50)


def test_the_command_draws_saved_results(tmp_path: Path) -> None:
    full().save(tmp_path / "r.json")
    for kind in ("memory-chart", "roofline", "timeline", "in-flight"):
        command = [
            sys.executable,
            "-m",
            "warpsim",
            "plot",
            kind,
            str(tmp_path / "r.json"),
            "-o",
            str(tmp_path / "c.svg"),
        ]
        subprocess.run(command, check=True)
        assert ET.parse(tmp_path / "c.svg").getroot().tag == f"{SVG}svg"
    command[-1] = str(tmp_path / "c.pdf")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"error: {tmp_path}/c.pdf: charts are written as .svg or .png\n")


@pytest.mark.parametrize("chart", CHARTS)
def test_a_png_has_the_shapes_in_their_places(chart: Drawing, tmp_path: Path) -> None:
    """Twice the chart's size, white paper, and ink at each dot's and each label's place."""
    image = pytest.importorskip("matplotlib.image")
    chart.save(tmp_path / "chart.PNG")
    pixels = image.imread(tmp_path / "chart.PNG")
    root = ET.fromstring(chart.inline)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert pixels.shape[:2] == (2 * height, 2 * width)
    assert (pixels[-1, :, :3] == 1).all()
    blue = ((pixels[:, :, 2] > 0.8) & (pixels[:, :, 0] < 0.1)).astype(int)
    for dot in root.iter("circle"):
        if dot.attrib["class"] == "blue":
            x, y = (int(2 * float(dot.attrib[name])) for name in ("cx", "cy"))
            assert blue[y - 3 : y + 4, x - 3 : x + 4].all()
    for text in root.iter("text"):
        x, y = (int(2 * float(text.attrib[name])) for name in ("x", "y"))
        left = {"start": x, "middle": x - 20, "end": x - 40}[text.attrib["text-anchor"]]
        assert pixels[y - 20 : y + 4, max(left, 0) : left + 40, :3].min() < 0.6, text.text


def test_png_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UnsupportedError, match=r"chart\.png: PNG needs warpsim\[report\]"):
        CHARTS[0].save(tmp_path / "chart.png")


def test_labels_cover_neither_points_nor_each_other() -> None:
    canvas = Canvas(400, 200)
    x, y = Axis(0, 1, 40, 380), Axis(0, 1, 180, 10)
    points = [(x.at(v), y.at(v), f"point {i}") for i, v in enumerate((0.02, 0.3, 0.31, 0.32, 0.33, 0.99))]
    canvas.labels(points, x, y)
    boxes = []
    for text in ET.fromstring(canvas.drawing("a").inline).iter("text"):
        at, foot, wide = float(text.attrib["x"]), float(text.attrib["y"]), 7 * len(text.text or "")
        left = at - {"start": 0, "middle": wide / 2, "end": wide}[text.attrib["text-anchor"]]
        assert left >= 40
        assert left + wide <= 400
        boxes.append((left, foot - 10, left + wide, foot + 3))
    assert 4 <= len(boxes) < 6  # some of the crowd have no room
    dots = [(i - 5, j - 5, i + 5, j + 5) for i, j, _ in points]
    for k, a in enumerate(boxes):
        for b in (*dots, *boxes[:k]):
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_curves_of_what_never_moves_are_left_out() -> None:
    series = {"cycle": [100, 200, 300], "bytes_in_flight": [0, 0, 0], "warps_resident": [4, 4, 2]}
    drawn = plots.timeline(make(extra={"timeline": series})).inline
    assert "resident warps, mean" in drawn
    assert "bytes in flight" not in drawn
    with pytest.raises(InputError, match="nothing is under way"):
        plots.timeline(make(extra={"timeline": {"cycle": [100, 200], "bytes_in_flight": [0, 0]}}))
