# SPDX-License-Identifier: Apache-2.0
"""An object that offers the CUDA Array Interface, and arrays to compare it with."""

import numpy as np

import devrt

try:
    CUDA = devrt.devices("cuda")
except devrt.Error as error:
    CUDA = []


class Exporter:
    """Another library's array."""

    def __init__(self, array, **changes):
        self.array = array
        self.interface = {**array.__cuda_array_interface__, **changes}

    @property
    def __cuda_array_interface__(self):
        return self.interface


def array(values, dtype="float32", device="cuda:0"):
    made = devrt.array(np.asarray(values, dtype), device=device)
    made.ready()
    return made
