# SPDX-License-Identifier: Apache-2.0
"""Defects."""

from mutants import Mutant

MUTANTS = []
