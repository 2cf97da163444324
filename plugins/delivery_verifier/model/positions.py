"""Where the records of a producer stand in the topic, as the brokers acknowledged them while the load runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Positions(NamedTuple):
    """The positions of one producer's first attempts. The item i of each array is about the sequence i.

    `partition`: the partition of the record. `offset`: the offset that a broker acknowledged. It is -1 if no
    acknowledgement with an offset has come yet.
    """

    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
