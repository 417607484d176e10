"""A file that is written atomically is the old one or the whole new one, whatever fails."""

import ast
import os
import resource
import stat
from pathlib import Path

import pytest

import spectui
from spectui.atomic import leftovers, replacing, write_atomic, write_named
from spectui.errors import ExistsError, SpectuiError


def test_the_new_content_replaces_the_old_and_is_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "new directory" / "file.json"
    write_atomic(file, b"old")
    write_atomic(file, b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    write_atomic(file, b"newer", mode=0o640)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["file.json"]


def test_a_disk_that_fills_up_leaves_the_old_content_and_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomic(file, b"old")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, old[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_atomic(file, b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert file.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


def test_a_block_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with replacing(tmp_path / "file") as part:
            assert part.name.endswith(f".{os.getpid()}.part") and part.parent == tmp_path
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_a_name_as_long_as_a_name_can_be(tmp_path: Path) -> None:
    write_atomic(tmp_path / ("x" * 255), b"")
    assert os.listdir(tmp_path) == ["x" * 255]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_named_file_that_another_program_makes_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_link: bool
) -> None:
    file, touch = tmp_path / "named", Path.touch

    def later(*given: object, **named: object) -> None:
        file.symlink_to("nowhere") if is_link else file.write_text("another program's")
        touch(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "touch", later)
    with pytest.raises(ExistsError, match="exists already: name another"):
        write_named(file, b"new", advice="name another")
    assert file.is_symlink() == is_link and (is_link or file.read_text() == "another program's")


def test_a_name_that_the_file_system_refuses_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpectuiError, match="cannot be written: File name too long"):
        write_named(tmp_path / ("x" * 300), b"")
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_of_a_file_is_told_from_other_programs_files(tmp_path: Path) -> None:
    for name in ("draft.gguf.abcdefgh.99999999.part", "backup.99999999.part", "other.gguf.abcdefgh.99999999.part"):
        (tmp_path / name).touch()
    assert [part.name for part in leftovers(tmp_path, "draft.gguf")] == ["draft.gguf.abcdefgh.99999999.part"]
    assert len(leftovers(tmp_path)) == 3


def replaces_a_file(node: ast.AST) -> bool:
    """A call of `os.replace`, or of `Path.replace`: `str.replace` takes two arguments, `dataclasses.replace` keywords."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "replace":
        return False
    of_os = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
    return of_os or (len(node.args) == 1 and not node.keywords)


def test_no_other_module_replaces_a_file() -> None:
    package = Path(spectui.__file__).parent
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if any(map(replaces_a_file, ast.walk(ast.parse(file.read_text()))))
    }
    # A download that was interrupted is continued by the next process, so its part has a name of its own. The kernels are built
    # before spectui can be imported. The log of a run that died is moved.
    assert found == {"atomic.py", "cli/models/hub.py", "kernels/build.py", "store/recovery/crash.py"}
