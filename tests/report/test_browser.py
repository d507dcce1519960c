"""Reports in a real browser: what a person would look at. Screenshots of all of them are kept in
screenshots/."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.selenium import Axe
from test_report import forge, write_part

import rspo
from browser import chromium, needs_browser, requests, screenshot, show
from pages import Linkage, Undrawn, make_run
from picture_worlds import make_walk
from product import rewritten
from rspo.core import svg
from rspo.envs.base import Env
from rspo.report import write_comparison, write_report
from rspo.report.bench import bench_page
from rspo.report.watch import serving
from rspo.runs import store

DOMAINS: dict[str, str | Env] = {
    "four-goals-easy": "four-goals-easy",
    "monster-hunt": "monster-hunt",
    "escalation": "escalation",
    "half-cheetah": "half-cheetah",
    "gym:Pendulum-v1": "gym:Pendulum-v1",
    "linkage": Linkage(),
    "undrawn": Undrawn(),
}
COUNT = 3


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    needs_browser()
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def run_of(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run of a domain, made once; not before it is known that there is a browser."""
    home = tmp_path_factory.mktemp("domains")

    def run(name: str) -> Path:
        folder = home / name
        return folder if folder.exists() else make_run(folder, DOMAINS[name], COUNT)

    return run


@pytest.fixture
def hunt(run_of: Callable[[str], Path]) -> Path:
    """A world in which something moves in every step."""
    return write_report(run_of("monster-hunt"))


def assert_silent(driver: Any, page: Path) -> None:
    """Nothing in the console, nothing asked of any network."""
    assert driver.get_log("browser") == []
    assert {url for url in requests(driver) if not url.startswith("data:")} == {
        page.resolve().as_uri()
    }


def all_of(driver: Any, selector: str) -> list[Any]:
    return driver.find_elements("css selector", selector)


def one(driver: Any, selector: str) -> Any:
    (element,) = all_of(driver, selector)
    return element


def picture(driver: Any, canvas: Any) -> str:
    return driver.execute_script("return arguments[0].toDataURL()", canvas)


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """A busy machine may take its time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOMAINS)
def test_a_report_of_every_domain(driver: Any, run_of: Callable[[str], Path], name: str) -> None:
    page = write_report(run_of(name))
    show(driver, page)
    cards = all_of(driver, ".card")
    assert len(cards) == COUNT
    assert [card.find_element("css selector", ".badge").text for card in cards] == [
        "novel",
        "novel",
        "duplicate",
    ]
    canvas = all_of(driver, ".card canvas")[0]
    first = picture(driver, canvas)
    until(lambda: picture(driver, canvas) != first)
    blank = "const c = document.createElement('canvas'); c.width = arguments[0].width; c.height = arguments[0].height;"
    assert first != driver.execute_script(blank + "return c.toDataURL()", canvas)
    assert "step" in all_of(driver, ".card figcaption")[0].text
    screenshot(driver, name.replace(":", "-"))
    assert_silent(driver, page)
    assert audit(driver) == []


def audit(driver: Any) -> list[Any]:
    """What axe-core, which knows WCAG's rules and what screen readers need, finds wrong."""
    driver.execute_script(
        "for (const details of document.querySelectorAll('details')) details.open = true"
    )
    return Axe().run(driver)["violations"]


def test_buttons(driver: Any, hunt: Path) -> None:
    show(driver, hunt, prefers_reduced_motion="reduce")
    card = all_of(driver, ".card")[0]
    button = {
        b.get_attribute("data-do"): b
        for b in card.find_elements("css selector", ".controls button")
    }
    caption, slider = (
        card.find_element("css selector", "figcaption"),
        card.find_element("css selector", "input"),
    )
    canvas = card.find_element("css selector", "canvas")
    assert "episode 1 of" in caption.text  # reduced motion: nothing moves until it is asked to
    assert "step 0 of" in caption.text
    start = picture(driver, canvas)
    time.sleep(0.3)
    assert picture(driver, canvas) == start
    button["forward"].click()
    assert "step 1 of" in caption.text
    assert picture(driver, canvas) != start
    button["forward"].click()
    assert "step 2 of" in caption.text
    button["back"].click()
    button["back"].click()
    assert "step 0 of" in caption.text
    assert picture(driver, canvas) == start
    button["next"].click()
    assert "episode 2 of" in caption.text
    button["play"].click()
    assert button["play"].get_attribute("aria-label") == "Pause"
    until(lambda: "step 0 of" not in caption.text)
    button["play"].click()
    stopped = caption.text
    time.sleep(0.3)
    assert caption.text == stopped
    driver.execute_script(
        "arguments[0].value = arguments[0].max; arguments[0].dispatchEvent(new Event('input'))",
        slider,
    )
    steps = caption.text.split("step ")[1].split(" ·")[0].split(" of ")
    assert steps[0] == steps[1]


@pytest.mark.slow
def test_the_speed_is_the_viewers(driver: Any, hunt: Path) -> None:
    """At four times the speed an episode's end comes sooner."""
    took = {}
    for speed in ("1", "4"):
        show(driver, hunt, prefers_reduced_motion="reduce")
        card = all_of(driver, ".card")[0]
        slider = card.find_element("css selector", "input")
        card.find_element("css selector", f"option[value='{speed}']").click()
        card.find_element("css selector", "[data-do=play]").click()
        began = time.monotonic()
        until(lambda slider=slider: slider.get_property("value") == slider.get_property("max"))
        took[speed] = time.monotonic() - began
    assert took["4"] < took["1"]


def test_everything_can_be_paused_at_once(driver: Any, hunt: Path) -> None:
    show(driver, hunt)
    whole = one(driver, "#play-all")
    assert whole.text == "Pause all"
    whole.click()
    assert whole.text == "Play all"
    before = [caption.text for caption in all_of(driver, ".card figcaption")]
    time.sleep(0.4)
    assert [caption.text for caption in all_of(driver, ".card figcaption")] == before


def test_the_keyboard_reaches_and_works_every_control(driver: Any, hunt: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    show(driver, hunt, prefers_reduced_motion="reduce")
    reached = []
    for _ in range(40):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        active = driver.switch_to.active_element
        reached.append(
            active.get_attribute("data-do") or active.get_attribute("id") or active.tag_name
        )
        if reached[-1] == "forward":
            active.send_keys(Keys.ENTER)
            break
    assert reached[0] == "a"  # skip to the strategies
    assert {"play-all", "only-novel", "play", "back", "forward"} <= set(reached)
    assert "step 1 of" in all_of(driver, ".card figcaption")[0].text


def test_only_the_distinct_ones(driver: Any, hunt: Path) -> None:
    show(driver, hunt)
    shown = lambda: [card.is_displayed() for card in all_of(driver, ".card")]
    assert shown() == [True, True, True]
    one(driver, "#only-novel").click()
    assert shown() == [True, True, False]


def test_two_side_by_side(driver: Any, hunt: Path) -> None:
    show(driver, hunt, prefers_reduced_motion="reduce")
    pair = one(driver, "#pair")
    left, right = pair.find_elements("css selector", ".choose")
    assert (left.get_property("value"), right.get_property("value")) == ("0", "1")
    canvases = pair.find_elements("css selector", "canvas")
    captions = pair.find_elements("css selector", "figcaption")
    driver.execute_script("arguments[0].scrollIntoView()", pair)
    before = [picture(driver, canvas) for canvas in canvases]
    pair.find_element("css selector", "[data-do=forward]").click()
    assert all("step 1 of" in caption.text for caption in captions)
    assert all(picture(driver, c) != old for c, old in zip(canvases, before, strict=True))
    right.find_element("css selector", "option[value='2']").click()
    assert "step 0 of" in captions[1].text


@pytest.mark.parametrize(
    ("name", "width", "media"),
    [
        ("phone", 360, {}),
        ("dark", 1280, {"prefers_color_scheme": "dark"}),
        ("phone-dark", 360, {"prefers_color_scheme": "dark"}),
    ],
)
def test_on_a_phone_and_in_the_dark(
    driver: Any, run_of: Callable[[str], Path], name: str, width: int, media: dict[str, str]
) -> None:
    page = write_report(run_of("four-goals-easy"))
    show(driver, page, width, **media)
    assert (
        driver.execute_script("return document.documentElement.scrollWidth") <= width
    )  # nothing to scroll sideways
    background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    lightness = sum(int(part) for part in background.strip("rgb()").split(",")) / 3
    assert (lightness < 60) == bool(media)
    screenshot(driver, name)
    assert_silent(driver, page)


def test_text_stands_out_from_what_is_behind_it(
    driver: Any, run_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """WCAG's contrast of 4.5, for everything that is written, in light and dark."""
    run = shutil.copytree(run_of("undrawn"), tmp_path / "run")
    write_part(
        run / "crossplay.json",
        {"strategies": ["a", "b"], "payoff": [[0, 1], [0.5, 0.7]], "episodes": 8},
    )
    page = write_report(run)
    for scheme in ("light", "dark"):
        show(driver, page, prefers_color_scheme=scheme)
        weak, looked_at = driver.execute_script(CONTRAST)
        assert weak == []
        assert looked_at > 100


def test_on_paper(driver: Any, hunt: Path) -> None:
    show(driver, hunt)
    pdf = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(pdf) > 20_000
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    assert not any(bar.is_displayed() for bar in all_of(driver, ".controls"))
    assert all(card.is_displayed() for card in all_of(driver, ".card"))
    seen = "return [...document.querySelectorAll('#repeat .unfold th')].map((setting) => setting.checkVisibility())"
    settings = driver.execute_script(seen)
    assert settings
    assert all(settings)  # nobody can unfold paper
    weak, looked_at = driver.execute_script(CONTRAST)
    assert weak == []  # whatever the screen's colours are
    assert looked_at > 100
    screenshot(driver, "paper")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


VISIBLE = """
return [...document.querySelectorAll(".card")].map((card) =>
  [".still", "canvas"].map((part) => card.querySelector(part).checkVisibility({ visibilityProperty: true })));
"""


def test_the_still_picture_is_there_until_something_plays_and_on_paper(
    driver: Any, hunt: Path
) -> None:
    show(driver, hunt, prefers_reduced_motion="reduce")
    assert driver.execute_script(VISIBLE) == [[True, False]] * COUNT
    all_of(driver, ".card [data-do=forward]")[0].click()
    assert driver.execute_script(VISIBLE)[0][1]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert driver.execute_script(VISIBLE) == [[True, False]] * COUNT
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_stills_are_in_the_colour_of_their_strategy(
    driver: Any, run_of: Callable[[str], Path], scheme: str
) -> None:
    show(driver, write_report(run_of("four-goals-easy")), prefers_color_scheme=scheme)
    of = "return [...document.querySelectorAll('.card')].map((card) => [getComputedStyle(card.querySelector('.still .way')).stroke, getComputedStyle(card.querySelector('.swatch')).backgroundColor])"
    colours = driver.execute_script(of)
    assert all(way == swatch for way, swatch in colours)
    assert len({way for way, _ in colours}) == COUNT


def test_without_scripts_there_is_a_picture(driver: Any, hunt: Path) -> None:
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(driver, hunt)
        assert all(still.is_displayed() for still in all_of(driver, ".card .still"))
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


# Text that reaches beyond the card or panel around it, where that does not scroll.
OVERFLOW = """
const wrong = [], root = document.documentElement, scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
for (const details of document.querySelectorAll("details")) details.open = true;
if (root.scrollWidth > root.clientWidth) wrong.push("the page scrolls sideways");
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement;
  if (!node.textContent.trim() || !element.checkVisibility() || element.closest("script, style, noscript, title, option, .skip")) continue;
  let inside = false;
  for (let e = element; e; e = e.parentElement) inside ||= scrolls(e);
  const box = (element.closest("svg, .card, .learning, .panel, #pair") || root).getBoundingClientRect(), range = document.createRange();
  range.selectNodeContents(node);
  for (const r of inside ? [] : range.getClientRects())
    if (r.right > box.right + 1 || r.left < box.left - 1) wrong.push(node.textContent.trim().slice(0, 60));
}
return wrong;
"""
LONG = "a-name-that-was-never-meant-to-be-this-long-and-has-no-space-in-it-" * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["monster-hunt", "half-cheetah", "gym:Pendulum-v1"])
def test_no_text_leaves_its_card_at_any_width(
    driver: Any, run_of: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    run = shutil.copytree(run_of(name), tmp_path / "run")
    with rewritten(run / "strategies" / "001" / "strategy.json") as record:
        record["evaluation"] |= {"return_mean": -123456.789, "return_std": 98765.4321}
        record["evaluation"]["stats"] = {LONG: 1e-300}
    with rewritten(run / "strategies" / "002" / "strategy.json") as record:
        record["evaluation"] |= {"descriptor": LONG, "sampled_descriptor": f"another {LONG}"}
        record["reason"] = LONG
    page = write_report(run)
    for width in (360, 480, 768, 1024, 1440, 1920):
        show(driver, page, width=width, prefers_reduced_motion="reduce")
        assert driver.execute_script(OVERFLOW) == [], width


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_cards_fill_the_page(driver: Any, tmp_path: Path, count: int) -> None:
    show(driver, write_report(make_run(tmp_path / "run", "four-goals-easy", count)), width=1280)
    boxes = [card.rect for card in all_of(driver, ".card")]
    right = max(box["x"] + box["width"] for box in boxes)
    assert right == pytest.approx(one(driver, ".gallery").rect["x"] + 1200, abs=1)
    assert len({box["y"] for box in boxes}) == 1
    screenshot(driver, f"{count}-cards")


@pytest.mark.slow
def test_a_watched_page_shows_strategies_as_they_come(
    driver: Any, run_of: Callable[[str], Path], tmp_path: Path
) -> None:
    run = shutil.copytree(run_of("four-goals-easy"), tmp_path / "run")
    (run / "strategies" / "002").rename(tmp_path / "later")
    with serving(run) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            for kind in ("browser", "performance"):
                driver.get_log(kind)
            driver.get(server.address)
            assert len(all_of(driver, ".card")) == COUNT - 1
            assert "2 of 3 strategies so far" in one(driver, "#watched").text
            assert driver.get_log("browser") == []
            (tmp_path / "later").rename(run / "strategies" / "002")
            until(lambda: len(all_of(driver, ".card")) == COUNT)
            asked = {url for url in requests(driver) if not url.startswith("data:")}
            assert asked == {server.address, f"{server.address}version"}
            assert audit(driver) == []
        finally:
            server.shutdown()
            thread.join()
    until(lambda: "has ended" in one(driver, "#watched").text)
    driver.get_log("browser")  # which complains that nobody answers


@pytest.mark.slow
def test_hostile_names_do_not_run(
    driver: Any, run_of: Callable[[str], Path], tmp_path: Path
) -> None:
    run = shutil.copytree(run_of("monster-hunt"), tmp_path / "run")
    forge(run)
    page = write_report(run)
    show(driver, page)
    first = picture(driver, all_of(driver, ".card canvas")[0])
    until(lambda: picture(driver, all_of(driver, ".card canvas")[0]) != first)
    assert driver.execute_script("return window.hacked") is None
    assert "<script>window.hacked=1</script>" in all_of(driver, ".card h3")[0].text
    assert_silent(driver, page)


def test_no_other_script_may_run(driver: Any, hunt: Path) -> None:
    """Even if something got through: the page's own policy lets only its own script run."""
    show(driver, hunt)
    add = "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
    driver.execute_script(add)
    assert driver.execute_script("return window.hacked") is None
    driver.get_log("browser")  # which complains about it


@pytest.mark.slow
def test_a_comparison(driver: Any, run_of: Callable[[str], Path], tmp_path: Path) -> None:
    runs = [
        run_of("undrawn"),
        *(make_run(tmp_path / f"{seed}", Undrawn(), 2, seed=seed) for seed in (1, 2)),
    ]
    page = write_comparison([run_of("four-goals-easy"), *runs], tmp_path / "comparison.html")
    show(driver, page)
    assert len(all_of(driver, ".chart > svg")) == 6
    assert {sample.size["width"] for sample in all_of(driver, ".key svg")} == {
        18
    }  # a line of the key, no chart
    screenshot(driver, "comparison")
    assert_silent(driver, page)
    assert audit(driver) == []


TALLEST = (
    "return Math.max(...[...document.querySelectorAll('td')].map((cell) => cell.clientHeight))"
)


def test_a_page_of_a_bench_scrolls_what_is_wide_and_cuts_no_word(
    driver: Any, tmp_path: Path
) -> None:
    """The page itself never does: the figure and the tables do, within their panels."""
    words = " | ".join(["half_cheetah_and_its_kin"] * 6)
    rule = " | ".join(["---"] * 6)
    text = f"# A bench\n\nMade by hand.\n\n| {words} |\n| {rule} |\n| {words} |\n"
    figure = svg.document(1500, 300, svg.text("wide", 10, 20))
    page = tmp_path / "bench.html"
    store.write(page, bench_page("A bench", text, [figure], [("a run", None)]).encode())
    for width in (360, 1000, 1920):
        show(driver, page, width=width)
        assert driver.execute_script(OVERFLOW) == [], width
        assert one(driver, ".picture img").size["width"] == 1500  # and can be read
        assert driver.execute_script(TALLEST) < 60, width  # two lines at most
    screenshot(driver, "bench")
    assert_silent(driver, page)
    assert audit(driver) == []


CONTRAST = """
const light = (rgb) => rgb.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const over = ([r, g, b, alpha = 1], below) => [r, g, b].map((v, i) => alpha * v + (1 - alpha) * below[i]);
const behind = (element) => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) layers.push(parts(getComputedStyle(e).backgroundColor));
  return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), weak = [];
let count = 0;
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !e.checkVisibility()) continue;
  if (e.closest("script, style, noscript, title, .heat")) continue;
  const style = getComputedStyle(e), svg = e.closest("svg");
  const [a, b] = [light(parts(svg ? style.fill : style.color)), light(behind(e))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  count++;
  if (contrast < 4.5) weak.push([walker.currentNode.textContent.trim().slice(0, 40), contrast]);
}
return [weak, count];
"""


@pytest.mark.slow
def test_an_environments_own_pictures_are_in_the_still_picture_and_move(
    driver: Any, tmp_path: Path
) -> None:
    """One that shows itself: nine moments before anything plays, then picture by picture."""
    settings = {
        "iterations": 2,
        "ppo": {"updates": 1, "batch": 48, "epochs": 1, "minibatches": 1, "hidden": 8},
        "judge": {"episodes": 4},
    }
    rspo.discover(make_walk, name="a walk", horizon=6, out=tmp_path / "run", quiet=True, **settings)
    page = tmp_path / "run" / "report.html"
    show(driver, page)
    screenshot(driver, "a walk")
    assert_silent(driver, page)
    stills = all_of(driver, ".card .still")
    assert len(stills) == 2
    assert all(len(still.find_elements("css selector", "svg")) == 9 for still in stills)
    one(driver, "#play-all").click()  # pause
    figure = all_of(driver, ".card .player")[0]
    canvas = figure.find_element("css selector", "canvas")
    back, forward = (
        figure.find_element("css selector", f"[data-do={do}]") for do in ("back", "forward")
    )
    seen = set()
    for _ in range(6):
        back.click()
    for _ in range(6):
        seen.add(picture(driver, canvas))
        forward.click()
    arrays, _ = store.read_arrays(tmp_path / "run/strategies/000/episodes.safetensors")
    assert len(seen) == len(set(arrays["0.obs"][:6, 0, 0].tolist())) > 1
    box = driver.execute_script(
        "const b = arguments[0].getBoundingClientRect(); return b.width / b.height", canvas
    )
    assert abs(box - 133 / 20) < 0.3
