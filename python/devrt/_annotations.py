# SPDX-License-Identifier: Apache-2.0
"""Modules that annotations name, and whose import takes long.

typing.get_type_hints evaluates an annotation with the names of its module, so a name
that type checkers alone see would be an error there.
"""

__all__ = ["_types", "t"]

TYPE_CHECKING = False  # type checkers take it for typing's
if TYPE_CHECKING:
    import typing as t

    from . import _types
else:

    class _Later:
        """Stands for a module, and imports it when a name of it is asked for."""

        def __init__(self, module):
            self._module = module

        def __getattr__(self, name):
            from importlib import import_module

            return getattr(import_module(self._module), name)

    t = _Later("typing")
    _types = _Later("devrt._types")
