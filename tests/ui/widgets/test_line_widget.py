"""Lines of figures: how texts are wrapped."""

from __future__ import annotations

import pytest

from spectui.ui.widgets.line_widget import wrapped


@pytest.mark.parametrize("width", range(21, 60))
def test_no_line_ends_within_a_number_or_before_its_unit(width: int) -> None:
    lines = ["".join(text for text, _ in line)[12:] for line in wrapped("draft", "Q2_K, 0.1 GB, 4 096 cells", width)]
    assert " ".join(line.strip() for line in lines) == "Q2_K, 0.1 GB, 4 096 cells"
    assert any("0.1 GB" in line for line in lines) and any("4 096" in line for line in lines)
