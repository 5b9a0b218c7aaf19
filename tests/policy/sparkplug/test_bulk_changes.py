"""Single policies changed in bulk files: one record is another, and everything else stays as it was written."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.policy.sparkplug.bulk_changes import lines_of, with_line

FILE = """"id", topics ,subject,may,except,when,on,from,until
one,"spBv1.0/G1/#",a1,read,,"mt > 5 ||
 mt < 2",,,

"two",spBv1.0/G2/#,"a2",read write,x;y,,mon tue,08:00,16:00
three,"spBv1.0/G3/#","a3",read,,,,,
"""
NEW = {"id": "new", "subject": "a4", "topics": "spBv1.0/G4/#", "may": "read"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bulk.csv"
    path.write_text(FILE)
    return path


def change(file: Path, id: str, row: dict[str, Any] | None) -> str:
    (line,) = [each for each in lines_of(file) if each.id == id]
    return with_line(file, id, row, line.number)


def test_a_policy_is_added_in_the_columns_of_the_file(file: Path) -> None:
    row: dict[str, Any] = {**NEW, "except": ["x", "y"], "when": 'a == "b" || c'}
    row["valid"] = {"on": ["mon"], "from": "08:00", "until": "09:00"}
    assert with_line(file, "new", row) == f'{FILE}new,spBv1.0/G4/#,a4,read,x;y,"a == ""b"" || c",mon,08:00,09:00\n'


def test_only_the_cells_that_change_are_written_anew(file: Path) -> None:
    row = {"id": "two", "subject": "a9", "topics": "spBv1.0/G2/#", "may": ["write", "read"], "except": ["x", "y"]}
    before = '"two",spBv1.0/G2/#,"a2",read write,x;y,,mon tue,08:00,16:00\n'
    assert change(file, "two", row) == FILE.replace(before, '"two",spBv1.0/G2/#,"a9",write read,x;y,,,,\n')


def test_a_record_over_several_lines_is_changed_and_ended_whole(file: Path) -> None:
    begin, end = FILE.index("one,"), FILE.index("\n\n")
    assert change(file, "one", None) == FILE[:begin] + FILE[end + 1 :]
    row = {"id": "one", "subject": "a1", "topics": "spBv1.0/G1/#", "may": "read"}
    assert change(file, "one", row) == FILE[:begin] + 'one,"spBv1.0/G1/#",a1,read,,"",,,' + FILE[end:]


def test_the_ends_of_lines_stay_as_they_are(file: Path) -> None:
    file.write_bytes(FILE.replace("\n", "\r\n").encode())
    assert with_line(file, "new", NEW) == (FILE + "new,spBv1.0/G4/#,a4,read,,,,,\n").replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (NEW | {"subject": ["a", "b"]}, "bulk.csv:1: `subject`: a row of CSV has one, found 2"),
        (NEW | {"valid": {"from": "08:00", "until": "09:00", "zone": "Europe/Berlin"}}, "no column `zone`"),
        (NEW | {"except": ["x;y"]}, "a row of CSV cannot say this"),
        (NEW | {"when": "a ==\n1"}, "a row of CSV cannot say this"),
        (NEW | {"may": "reed"}, "unknown privilege `reed`"),
    ],
)
def test_what_the_columns_cannot_say_is_refused(file: Path, row: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        with_line(file, "new", row)


def test_a_file_without_ids_takes_none(file: Path) -> None:
    file.write_text("subject,topics,may\na1,t,read\n")
    with pytest.raises(PolicyError, match=r"bulk\.csv:1: the file has no column `id`: add it to its header"):
        with_line(file, "new", NEW)
    assert change(file, f"{file}:2", None) == "subject,topics,may\n"


def test_an_error_elsewhere_in_the_file_is_shown_with_its_line(file: Path) -> None:
    file.write_text(FILE + "four,t,a1,reed,,,,,\n")
    with pytest.raises(PolicyError, match=r"bulk\.csv:7: unknown privilege `reed`"):
        with_line(file, "new", NEW)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0;"), min_size=1).map(str.strip).filter(bool)


@given(st.lists(TEXT, max_size=3), st.booleans())
def test_any_names_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], quoted: bool
) -> None:
    path = tmp_path_factory.mktemp("csv") / "bulk.csv"
    old = '"was"' if quoted else "was"
    path.write_text(f"id,except,subject,topics,may\nnew,{old},a4,spBv1.0/G4/#,read\n")
    text = change(path, "new", {**NEW, "except": names})
    _, cells = csv.reader(io.StringIO(text, newline=""))
    assert cells == ["new", ";".join(names), "a4", "spBv1.0/G4/#", "read"]
