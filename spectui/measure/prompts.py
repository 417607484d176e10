"""Prompts of different kinds: drafting speeds up some much and others little. Tables show a kind's name."""

from __future__ import annotations

from pathlib import Path

PAGE = """\
The Aral Sea was once the fourth-largest lake in the world, with an area of 68,000 square kilometres. It began shrinking in
the 1960s after the rivers that fed it were diverted by Soviet irrigation projects. By 2007 it had declined to 10 percent of
its original size, splitting into four lakes: the North Aral Sea, the eastern and western basins of the once far larger South
Aral Sea, and the smaller intermediate Barsakelmes Lake. By 2009 the southeastern lake had disappeared and the southwestern
lake had retreated to a thin strip at the western edge of the former southern sea. In subsequent years occasional water flows
led to the southeastern lake sometimes being replenished to a small degree. The Kok-Aral Dam was completed in 2005. By 2008
the water level in the North Aral Sea had risen by 12 metres compared to 2003, salinity had dropped, and fish were again
present in sufficient numbers for some fishing to be viable. The shrinking of the Aral Sea has been called one of the planet's
worst environmental disasters. The region's once-prosperous fishing industry has been devastated, bringing unemployment and
economic hardship. The water from the diverted Syr Darya river is used to irrigate about two million hectares of farmland.
"""

_FACTS = """\
[{"name": "Mercury", "radius_km": 2440, "moons": 0, "year_days": 88}, {"name": "Venus", "radius_km": 6052, "moons": 0,
"year_days": 225}, {"name": "Earth", "radius_km": 6371, "moons": 1, "year_days": 365}, {"name": "Mars", "radius_km": 3390,
"moons": 2, "year_days": 687}, {"name": "Jupiter", "radius_km": 69911, "moons": 95, "year_days": 4333}, {"name": "Saturn",
"radius_km": 58232, "moons": 146, "year_days": 10759}, {"name": "Uranus", "radius_km": 25362, "moons": 28, "year_days": 30687}]
"""


CODE = Path(__file__).with_name("code.txt").read_text(encoding="utf-8").rstrip("\n")
"""150 lines of a real file. They never change, so that speeds of versions of this program compare."""

PROMPTS: dict[str, str] = {
    "python": "write snake game in python",
    "typescript": "write snake game in typescript",
    "swift": "write snake game in swift",
    "quicksort": "Write quicksort in Python, with comments.",
    "chess": "Tell me the rules of chess",
    "toaster": "How long does an 800 W toaster need to use one kWh? Think step by step.",
    "summary": f"Summarise this page in five sentences, quoting its figures.\n\n{PAGE}",
    "edit": "Rename the class `Token` to `EmittedToken` everywhere in this file and return the whole file, nothing else.\n\n"
    f"```python\n{CODE}\n```",
    "table": f"Write these planets as a Markdown table with a header.\n\n{_FACTS}",
    "story": "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "resources": "Write a story about the natural resources of Canada.",
    "poem": "Write a poem of four stanzas about the first snow in a mountain village.",
    "translation": "Translate into German: The library opens at nine. Whoever returns a book late pays ten cents a day. "
    "Children borrow films only with their parents. On Fridays an author reads from a new book, and afterwards there is tea "
    "for everyone.",
    "dialogue": "Write a dialogue in which a grandmother teaches her grandson to bake bread, and he asks why at every step.",
}
