# SPDX-License-Identifier: Apache-2.0
"""The tests of bad_plugins_test.py, most of which wait for a plugin that hangs, and meanwhile
those of random_verdict_test.py, which compute."""

import bad_plugins_test
import random_verdict_test
from tool import main_at_once  # tests/tools, on PYTHONPATH

if __name__ == "__main__":
    main_at_once(modules=[bad_plugins_test.__name__, random_verdict_test.__name__])
