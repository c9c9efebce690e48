"""The table of characters: what each is to the rules."""

from __future__ import annotations

from gristmill.curate.characters import ALPHABETIC, KIND, SPACE, characters


def test_characters_agree_with_python() -> None:
    table = characters()
    for code in [*range(0x3100), *range(0x1F000, 0x1F700)]:
        character = chr(code)
        assert bool(table[code] & ALPHABETIC) == character.isalpha()
        assert (table[code] & KIND == SPACE) == character.isspace()
