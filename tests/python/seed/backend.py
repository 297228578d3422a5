# SPDX-License-Identifier: Apache-2.0
"""Which backend the seed tests run on: DEVRT_TEST_BACKEND, mtia without it."""

import os

import devrt

BACKEND = os.environ.get("DEVRT_TEST_BACKEND", "mtia")
ZERO = BACKEND + ":0"
# devrt.mtia, say: the names of torch.cuda, under which the tests are known.
cuda = getattr(devrt, BACKEND)
