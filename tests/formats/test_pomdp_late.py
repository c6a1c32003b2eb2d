"""Declarations that come too late."""

import pytest

from opaq.errors import InputError
from opaq.formats.pomdp.reader import read_pomdp


def test_observations_declared_after_a_reward(tmp_path):
    file = tmp_path / "late.pomdp"
    file.write_text(
        "discount: 0.9\nstates: 2\nactions: 1\nT: 0\nidentity\nR: 0 : 0 : * 1\nobservations: 2\nR: 0 : 0 : * : * 1\n"
    )
    with pytest.raises(InputError, match="declared after an 'R:' statement"):
        read_pomdp(file)
