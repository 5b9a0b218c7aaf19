"""Domain files as cases: what each means, or every line of what is wrong with it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import Domain, check, load, read
from penstock.model.errors import DomainError, Problem
from tests.support.generators.examples import some

CASES = Path(__file__).parent.parent / "cases" / "domain"
FILE = Path("domain.yaml")


def cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["title"]) for case in yaml.safe_load((CASES / name).read_text("utf-8"))]


def write(case: dict[str, Any], folder: Path) -> None:
    """Put a case's files into a folder."""
    for name, text in {str(FILE): case["text"], **case.get("files", {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def value_at(domain: Domain, path: str) -> object:
    """Return the value at a dotted path, in the form of a case."""
    value: Any = domain
    for step in path.split("."):
        if isinstance(value, dict):
            value = value[step]
        elif isinstance(value, tuple):
            value = value[int(step)]
        else:
            value = getattr(value, step)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, so that messages show the plain names of files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", cases("values.yaml"))
def test_values(case: dict[str, Any], folder: Path) -> None:
    write(case, folder)
    domain = load(FILE, case.get("environ", {}))
    assert {path: value_at(domain, path) for path in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", cases("mistakes.yaml"))
def test_mistakes(case: dict[str, Any], folder: Path) -> None:
    write(case, folder)
    with pytest.raises(DomainError) as caught:
        load(FILE, case.get("environ", {}))
    assert str(caught.value).split("\n") == case["expect"]


@pytest.mark.parametrize("case", cases("mistakes.yaml"))
def test_mistakes_are_found_at_the_same_lines_without_libyaml(
    case: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    write(case, folder)
    with pytest.raises(DomainError) as caught:
        load(FILE, case.get("environ", {}))
    # The two parsers have different words for what is not valid YAML, and see the end of a file differently.
    if "not valid YAML" in case["expect"][0]:
        assert "not valid YAML" in str(caught.value)
    else:
        assert str(caught.value).split("\n") == case["expect"]


def test_the_cases_cover_forty_kinds_of_mistake() -> None:
    titles = [case.id for case in cases("mistakes.yaml")]
    assert len(set(titles)) == len(titles) >= 40


def test_a_problem_has_its_parts(folder: Path) -> None:
    FILE.write_text("nodes:\n  main: {listen: 127.0.0.1:0, limits: {inflight: 0}}\n")
    with pytest.raises(DomainError) as caught:
        load(FILE, {})
    path = "nodes.main.limits.inflight"
    assert caught.value.problems == (Problem("domain.yaml", 2, path, "found `0`, expected at least 1"),)


def test_the_environment_is_the_process_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FILE.write_text("nodes: {main: {listen: 127.0.0.1:0}}")
    monkeypatch.setenv("PENSTOCK_NODES__MAIN__STORE", "memory")
    assert load(FILE).nodes["main"].store == "memory"


def test_a_variable_names_files_from_the_working_directory(folder: Path) -> None:
    (folder / "etc").mkdir()
    (folder / "etc" / FILE).write_text("nodes: {main: {listen: 127.0.0.1:0, passwords: users}}")
    (folder / "users").write_text("")
    variables = {"PENSTOCK_NODES__MAIN__PASSWORDS": "users"}
    assert load(Path("etc") / FILE, variables).nodes["main"].passwords == Path("users")


def test_names_of_files_are_relative_to_the_domain_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("nodes: {main: {listen: 127.0.0.1:0, acl: rights}}")
    (tmp_path / "rights").write_text("")
    node = load(tmp_path / FILE, {}).nodes["main"]
    assert (node.acl, node.store) == (tmp_path / "rights", str(tmp_path / "main.db"))


def test_only_the_files_of_the_nodes_that_run_here_must_be_here(folder: Path) -> None:
    FILE.write_text("nodes:\n  a: {listen: 127.0.0.1:0}\n  b: {listen: 127.0.0.1:0, acl: rights}\n")
    source = read(FILE, {})
    check(source, ["a"])
    with pytest.raises(DomainError, match=r"^domain\.yaml:3: nodes\.b\.acl: "):
        check(source, ["b"])


def test_top_level_lists_of_several_files_are_joined(folder: Path) -> None:
    FILE.write_text("include: more.yaml\nnodes: {a: {listen: 127.0.0.1:0}}\nlinks: [{between: [a, b]}]\n")
    Path("more.yaml").write_text("nodes:\n  b: {listen: 127.0.0.1:0}\n\nlinks:\n- {between: [b, c]}\n")
    with pytest.raises(DomainError, match=r"^more\.yaml:5: links\[1\]\.between: found `c`, "):
        load(FILE, {})


def test_only_the_files_of_links_that_begin_or_end_here_must_be_here(folder: Path) -> None:
    nodes = "".join(f"  {name}: {{listen: 127.0.0.1:0, store: memory}}\n" for name in "abc")
    FILE.write_text(f"nodes:\n{nodes}links:\n- between: [a, b]\n  secret_file: word\n  tls: {{ca: root.pem}}\n")
    source = read(FILE, {})
    check(source, ["c"])
    for names, missing in ((["a"], ["secret_file", "tls.ca"]), (["b"], ["secret_file"])):
        with pytest.raises(DomainError) as caught:
            check(source, names)
        assert [problem.path for problem in caught.value.problems] == [f"links[0].{key}" for key in missing]


def test_a_file_that_is_not_there(folder: Path) -> None:
    with pytest.raises(DomainError, match=r"^domain\.yaml: cannot be read: no such file or directory$"):
        load(FILE, {})


def test_a_folder_in_place_of_a_file(folder: Path) -> None:
    with pytest.raises(DomainError, match=r"cannot be read: is a directory$"):
        load(folder, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder: Path) -> None:
    FILE.write_text("nodes: {main: {listen: 127.0.0.1:0, acl: rights}}")
    (folder / "rights").touch(mode=0)
    with pytest.raises(DomainError, match="expected a file that this process may read"):
        load(FILE, {})


def test_a_file_that_is_not_utf_8(folder: Path) -> None:
    FILE.write_bytes(b"domain: home\nnodes: \xe9\n")
    with pytest.raises(DomainError, match=r"^domain\.yaml:2: found byte 0xe9, expected UTF-8$"):
        load(FILE, {})


def test_a_file_that_is_too_large(folder: Path) -> None:
    FILE.write_bytes(b"#" * (16 * 2**20 + 1))
    with pytest.raises(DomainError, match=r"^domain\.yaml: found more than 16777216 bytes"):
        load(FILE, {})


def test_a_link_that_leads_to_itself(folder: Path) -> None:
    FILE.symlink_to(FILE)
    with pytest.raises(DomainError, match=r"cannot be read: too many levels of symbolic links$"):
        load(FILE, {})


WORDS = r"""nodes main listen limits inflight include tls cert 127.0.0.1:0 memory true 5 1e999 .nan ~ & * &a *a <<
! !!str [ ] { } : , - ? | > ' " # % @ ` --- ..."""
PIECES = st.sampled_from([*WORDS.split(), " ", "\n", "\n  ", ": ", "\t", "\x00", "\u00e9", "\u2028"])


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=some(300), deadline=None)
def test_no_text_gives_an_error_of_another_kind(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text, "utf-8")
    with suppress(DomainError):
        load(file, {})
