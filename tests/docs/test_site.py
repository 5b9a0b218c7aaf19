"""The site that `make docs` builds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built: it fails on a link that leads nowhere, and on a page that no table of contents has."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", f"{folder}/pages"]
    done = subprocess.run([*build, "-c", "docs", ".", f"{folder}/site"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_every_page_is_in_it_and_every_link_leads_somewhere(site: Path) -> None:
    pages = {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md")}
    built = [(site / page.relative_to(ROOT)).with_suffix(".html") for page in sorted(pages)]
    assert [page for page in built if not page.exists()] == []
    assert (site / "index.html").exists()


def test_its_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["'](?:\w+:)?//[^"']*""")
    found = [hit for page in site.rglob("*.html") for hit in loaded.findall(page.read_text(encoding="utf-8"))]
    outside = re.compile(r"(?:@import|url\()\s*[\x22\x27]?(?:\w+:)?//")
    styles = [path for path in site.rglob("*.css") if outside.search(path.read_text(encoding="utf-8"))]
    assert (found, styles) == ([], [])
