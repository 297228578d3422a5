# SPDX-License-Identifier: Apache-2.0
"""Defects of devrt.elementwise/0 and devrt.probe/0."""

from mutants import Mutant

MUTANTS = [
    Mutant(
        name="negative_strides_ignored",
        what="A negative stride counts as 0.",
        witness="A reversed input is its first element over and over.",
        items="", group="extension", file="kernels/strided.cc",
        old="      const Computed value = element(static_cast<int64_t>(i) * "
            "stride);\n",
        new="      const int64_t step = stride < 0 ? 0 : stride;\n"
            "      const Computed value = element(static_cast<int64_t>(i) * "
            "step);\n"),
    Mutant(
        name="padded_rows_merged",
        what="Rows with room between them are taken for one long row.",
        witness="A column slice of a matrix has the wrong elements.",
        items="", group="extension", file="kernels/strided.cc",
        old="             span == stride) {\n",
        new="             (span == stride || (span > 0 && stride > span))) {\n"),
    Mutant(
        name="where_swapped",
        what="where takes the second value where the condition is true.",
        witness="The two values are exchanged.",
        items="", group="extension", file="kernels/elementwise.cc",
        old="{in[0].bytes, in[1].bytes, in[2].bytes};",
        new="{in[0].bytes, in[move ? 2 : 1].bytes,\n"
            "                                     in[move ? 1 : 2].bytes};"),
    Mutant(
        name="tail_of_block_lost",
        what="The last element of a call is not written.",
        witness="It is as before.",
        items="", group="extension", file="kernels/elementwise.cc",
        old="    writer.Write(n, result.bytes);\n",
        new="    writer.Write(left == static_cast<int64_t>(n) ? n - 1 : n, "
            "result.bytes);\n"),
    Mutant(
        name="empty_tensor_refused",
        what="A call on tensors without elements is an error.",
        witness="apply of size 0 fails.",
        items="", group="extension", file="table/tensor_ops.cc",
        old="  if (kernel->out.elements == 0) return nullptr;\n",
        new="  if (kernel->out.elements == 0) return InvalidArgument(\"empty\");"
            "\n"),
    Mutant(
        name="spin_returns_at_once",
        what="A spin takes no longer than an empty kernel.",
        witness="The time elapsed around a spin is shorter than the spin.",
        items="", group="extension", file="table/probe.cc",
        old="  op->duration = nanoseconds;\n",
        new="  static_cast<void>(nanoseconds);\n"),
    Mutant(
        name="flag_timeout_ignored",
        what="A kernel that waits for a flag ignores a timeout of less than a "
             "second.",
        witness="Nobody sets the flag, and the stream is never complete.",
        items="", group="extension", file="table/probe.cc",
        old="  op->timeout = timeout_ns;\n",
        new="  op->timeout = timeout_ns / 1'000'000'000 * 1'000'000'000;\n"),
    Mutant(
        name="flag_cannot_be_cleared",
        what="Clearing a flag does nothing.",
        witness="A kernel that waits for a cleared flag goes on.",
        items="", group="extension", file="table/probe.cc",
        old="  g_machine->flags.Set(flag, value, g_machine->driver);\n",
        new="  if (value != 0) g_machine->flags.Set(flag, value, g_machine->driver);\n"),
    Mutant(
        name="flag_set_at_submission",
        what="Setting a flag in a stream sets it at once.",
        witness="A kernel that waits for it goes on though the setting stream "
                "is behind a gate.",
        items="", group="extension", file="table/probe.cc",
        old="  op->flag_tag = flag->tag;\n  op->value = value;\n",
        new="  op->flag_tag = flag->tag;\n  op->value = value;\n"
            "  g_machine->flags.Set(flag, value, g_machine->driver);\n"),
]
