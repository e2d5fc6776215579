"""The viewer's page in a headless Chromium: lists, filters, rows, keys, and hostile content."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.viewer_files import HOSTILE, rollouts, tasks, write_files

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright (in the dev extra)"
)
expect = playwright.expect
expect.set_options(timeout=20_000)  # for machines that do other things as well

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium (as root)"
)

FLAGS = [
    "--headless",
    "--no-sandbox",  # Chromium refuses to run as root with it
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LIMIT_S = 60.0
TASKS, REPEATS = 60, 4
DESK = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of this file; each opens pages of its own."""
    # Its own profile, in a temporary folder, comes with every launch.
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """240 rollouts of five environments, failures among them."""
    path = tmp_path_factory.mktemp("viewer") / "rollouts.jsonl"
    write_files(path, TASKS, REPEATS)
    return path


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """What the lines of the first file say: the rollouts that ended well, in their order."""
    return [row for row in rollouts(TASKS, REPEATS) if "failure" not in row]


@pytest.fixture(scope="module")
def url(path: Path) -> Iterator[str]:
    """A viewer of those rollouts."""
    with viewer("rollouts", path) as url:
        yield url


@contextlib.contextmanager
def viewer(group: str, path: Path) -> Iterator[str]:
    """A running `gymctl ... view`; the URL. It must end in order."""
    command = [sys.executable, "-m", "gymctl", group, "view", path.name]
    options = ["--port", "0", "--no-open", "-o", "json"]
    process = subprocess.Popen(command + options, cwd=path.parent, stdout=PIPE, stderr=PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, err) == (0, "")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def browse(chromium: Browser, url: str, view: str = "", **options: Any) -> Iterator[Page]:
    """A page of the viewer; when it is left, it has asked for nothing else and raised nothing."""
    problems: list[str] = []

    def check(request: Any) -> None:
        if not request.url.startswith((url, "data:")):
            problems.append(f"asked for {request.url}")

    context = chromium.new_context(**{"viewport": DESK, **options})
    try:
        page = context.new_page()
        page.on("request", check)
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.goto(url + view)
        yield page
    finally:
        context.close()
    assert problems == []


@pytest.fixture
def page(chromium: Browser, url: str) -> Iterator[Page]:
    """The page of those rollouts."""
    with browse(chromium, url) as page:
        yield page


def body(page: Page) -> Locator:
    return page.locator("#list tbody tr")


def test_list_filters_sort_and_pages(page: Page, rows: list[dict[str, Any]]) -> None:
    # The list, and the figures above it.
    expect(body(page)).to_have_count(100)
    expect(page.locator("#files")).to_contain_text(f"{TASKS * REPEATS} rows")
    expect(body(page).first).to_contain_text("Schedule a 30 minute review")
    expect(page.locator(".figures")).to_contain_text(f"{len(rows)} of {TASKS * REPEATS}")
    expect(page.locator(".passes li").first).to_contain_text("pass@1")

    # The second page, by mouse and by key.
    page.get_by_role("button", name="Next page").click()
    expect(page.locator("#pager")).to_contain_text("101–200 of 240")
    page.keyboard.press("]")
    expect(body(page)).to_have_count(40)
    expect(page.get_by_role("button", name="Next page")).to_be_disabled()
    page.keyboard.press("[")
    expect(page.locator("#pager")).to_contain_text("101–200")

    # A filter begins on the first page again.
    page.get_by_label("Agent").select_option("math_with_judge_simple_agent")
    count = sum(row["agent_ref"]["name"].startswith("math") for row in rollouts(TASKS, REPEATS))
    expect(page.locator("#pager")).to_contain_text(f"1–{count} of {count} rollouts")

    # Order by reward: the best first, then the worst.
    page.get_by_role("button", name="Reward", exact=True).click()
    expect(body(page).first.locator(".pill")).to_have_text("1")
    page.get_by_role("button", name="Reward", exact=True).click()
    expect(body(page).first.locator(".pill")).to_have_text("0")
    assert "sort=reward" in page.url

    # Search.
    page.keyboard.press("/")
    page.keyboard.type("(problem 2)")
    expect(body(page)).to_have_count(REPEATS)
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator("#pager")).to_contain_text("of 240")


def test_a_bar_of_the_histogram_filters(page: Page, rows: list[dict[str, Any]]) -> None:
    ones = sum(row["reward"] == 1.0 for row in rows)
    bar = page.get_by_role("button", name=f"{ones} rollouts with reward 1")
    bar.click()
    expect(page.locator("#pager")).to_contain_text(f"of {ones} rollouts")
    expect(bar).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#chips")).to_contain_text("reward 1")
    # The other bars stay; the same one again takes the filter away.
    expect(page.locator(".column")).to_have_count(len({row["reward"] for row in rows}))
    bar.click()
    expect(page.locator("#pager")).to_contain_text("of 240")
    # An outcome filters too.
    page.locator(".outcomes").get_by_role("button", name="completed").click()
    expect(page.get_by_label("Outcome", exact=True)).to_have_value("completed")


def test_a_row_with_calls_reasoning_and_verdicts(page: Page, url: str, rows: list[dict[str, Any]]) -> None:
    line = next(n for n, row in enumerate(rows, 1) if row["rollout"]["tool_errors"])
    page.locator(f'tr[data-place="0:{line}"]').click()
    row = page.locator("#row")
    expect(row.get_by_role("heading", name=f"Line {line}")).to_be_visible()

    # Each call with its result beside it, the failed one marked.
    calls = row.locator(".item.tool")
    expect(calls).to_have_count(rows[line - 1]["rollout"]["tool_calls"])
    expect(calls.first).to_contain_text("directory_find_address")
    expect(calls.first.locator(".json").first).to_contain_text('"name": ')
    expect(row.locator(".item.failed")).to_contain_text("Invalid tool call arguments")

    # Reasoning is folded until somebody wants it.
    thoughts = row.locator("details.reasoning").first
    expect(thoughts.locator(".text")).to_be_hidden()
    thoughts.locator("summary").click()
    expect(thoughts.locator(".text")).to_be_visible()

    # The other tabs.
    row.get_by_role("tab", name="Run").click()
    expect(row.locator(".timing li")).to_have_count(6)
    row.get_by_role("tab", name="Task").click()
    expect(row.locator(".tool-definition")).to_have_count(4)
    row.get_by_role("tab", name="Raw").click()
    expect(row.locator(".json")).to_contain_text('"_ng_task_index"')

    # A judge's verdict can be read.
    judged = next(n for n, one in enumerate(rows, 1) if "judge_evaluations" in one)
    page.goto(f"{url}#row=0:{judged}&tab=reward")
    expect(row.locator(".verdict").first).to_contain_text("[[A")
    row.locator(".verdict summary").first.click()
    expect(row.locator(".verdict").first).to_contain_text("You compare two answers")


def test_what_a_policy_says_stays_text(page: Page, url: str, rows: list[dict[str, Any]]) -> None:
    def says(row: dict[str, Any]) -> str:
        return str(row["response"]["output"][-1]["content"][0]["text"])

    line = next(n for n, row in enumerate(rows, 1) if HOSTILE in says(row))
    page.goto(f"{url}#row=0:{line}")
    expect(page.locator("#row .item.assistant")).to_contain_text(HOSTILE)
    expect(page.locator("tr.current")).to_contain_text(HOSTILE[:20])
    assert page.locator("#row .item.assistant img, #list img, script:not([src])").count() == 0
    assert "owned" not in page.title()
    # Pictures are shown if the row holds them, and never fetched.
    pictured = next(n for n, row in enumerate(rows, 1) if "input_image" in json.dumps(row))
    page.goto(f"{url}#row=0:{pictured}")
    picture = page.locator("#row .item.user img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 48


def test_everything_goes_by_keyboard(page: Page, url: str) -> None:
    expect(body(page)).to_have_count(100)
    page.keyboard.press("j")
    row = page.locator("#row")
    expect(row.get_by_role("heading", name="Line 1", exact=False)).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(row.locator("h2")).to_have_text(re.compile("^Line 2 "))
    expect(page.locator("#position")).to_have_text("2 of 240")
    page.keyboard.press("2")
    expect(row.get_by_role("tab", name="Reward")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(row).to_be_hidden()
    # The focus is back in the list, and Enter opens.
    page.keyboard.press("Enter")
    expect(row.locator("h2")).to_have_text(re.compile("^Line 2 "))
    # Over the edge of a page.
    page.goto(f"{url}#row=0:100")
    expect(page.locator("#position")).to_have_text("100 of 240")
    page.keyboard.press("j")
    expect(page.locator("#position")).to_have_text("101 of 240")
    expect(page.locator("#pager")).to_contain_text("101–200")
    # A row that is closed before it has come stays closed.
    held: list[Any] = []
    page.route("**/api/rows/0:103", lambda route: held.append(route))
    with page.expect_request("**/api/rows/0:103"):
        page.keyboard.press("j")
        page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(row).to_be_hidden()
    with page.expect_response("**/api/rows/0:103"):
        held[0].continue_()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next / previous row")
    expect(row).to_be_hidden()


def test_a_link_opens_the_same_view(page: Page, url: str) -> None:
    page.goto("about:blank")
    page.goto(f"{url}#agent=mcqa_simple_agent&sort=duration&desc=1&row=0:130")
    expect(page.locator("#row h2")).to_contain_text("Line 130")
    expect(page.get_by_label("Agent", exact=True)).to_have_value("mcqa_simple_agent")
    link = page.url
    page.get_by_role("button", name="Close the row").click()
    expect(page.locator("#row")).to_be_hidden()
    page.go_back()
    assert page.url == link
    expect(page.locator("#row h2")).to_contain_text("Line 130")


def test_tasks_with_pass_at_k(page: Page) -> None:
    page.locator("#views").get_by_role("button", name="By task").click()
    expect(body(page)).to_have_count(TASKS)
    expect(page.locator("#list thead")).to_contain_text("pass@4")
    page.get_by_role("button", name="Mean", exact=True).click()
    expect(body(page).first.locator(".pill")).to_have_text("1.000")
    body(page).first.get_by_role("button").click()
    expect(body(page)).to_have_count(REPEATS)
    expect(page.locator("#chips")).to_contain_text("one task")


def test_new_rows_appear_while_they_are_written(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "growing.jsonl"
    content = [json.dumps(row) for row in rollouts(5, 2)]
    path.write_text("\n".join(content[:3]) + "\n")
    with viewer("rollouts", path) as url, browse(chromium, url) as page:
        expect(body(page)).to_have_count(3)
        with path.open("a") as file:
            file.write(content[3] + "\n" + content[4][:200])
        expect(body(page)).to_have_count(5)
        expect(body(page).last).to_contain_text("unfinished")
        with path.open("a") as file:
            file.write(content[4][200:] + "\n{broken\n")
        expect(body(page)).to_have_count(6)
        expect(body(page).nth(4)).not_to_contain_text("unfinished")
        # Without Follow the list stays as it is until somebody asks.
        page.get_by_label("Follow").uncheck()
        with path.open("a") as file:
            file.write(content[5] + "\n")
        page.get_by_role("button", name="Show new rows").click()
        expect(body(page)).to_have_count(7)
        page.get_by_role("button", name="1 unreadable line").click()
        expect(body(page)).to_have_count(1)
        body(page).first.click()
        expect(page.locator(".banner")).to_contain_text("The line is no row: no valid JSON")


def test_a_dataset_of_tasks_on_a_narrow_dark_page(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks(150)))
    options: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    with viewer("data", path) as url, browse(chromium, url, **options) as page:
        expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
        expect(body(page)).to_have_count(100)
        expect(page.locator("#overview")).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_text("Has …").click()
        page.get_by_label("tool definitions").check()
        expect(body(page)).to_have_count(30)
        page.keyboard.press("Escape")
        body(page).nth(1).locator(".c-text").click()
        expect(page.locator("#row .item.user")).to_contain_text("Schedule a 30 minute review")
        expect(page.get_by_role("tab")).to_have_text(["Conversation", "Task", "Raw"])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 27)"
