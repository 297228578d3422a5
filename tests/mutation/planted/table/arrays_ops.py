# SPDX-License-Identifier: Apache-2.0
"""Operations on arrays that do not say which memory they read or write."""

from mutants import ArrayMutant, Edit

MUTANTS = [
    ArrayMutant(
        name="OperandsAreNotTouched",
        what="An elementwise operation does not say that it reads its operands.",
        programs=("OperandIsWrittenLate", "OperandIsReadLate")),
    ArrayMutant(
        name="ResultsAreNotTouched",
        what="An elementwise operation does not say that it writes its result.",
        programs=("ResultIsLate",)),
    ArrayMutant(
        name="ReducedIsNotTouched",
        what="A reduction does not say that it reads its operand.",
        programs=("ReducedIsWrittenLate",)),
]

EDITS = [
    Edit("ops/compute.cc",
         old="  if (first != nullptr) {\n    for (const Array* read : first->read)",
         new="  if (first != nullptr && !MUTATED(OperandsAreNotTouched)) {\n"
             "    for (const Array* read : first->read)"),
    Edit("ops/compute.cc",
         old="    touched[count++] = {inputs.array(i)->storage().get(), false};\n",
         new="    if (MUTATED(OperandsAreNotTouched)) continue;\n"
             "    touched[count++] = {inputs.array(i)->storage().get(), false};\n"),
    Edit("ops/compute.cc",
         old="  touched[count++] = {written",
         new="  if (!MUTATED(ResultsAreNotTouched)) touched[count++] = {written"),
    Edit("ops/elementwise.cc",
         old="  const internal::Touched touched[] = {{a.storage().get(), false},\n"
             "                                       {b.storage().get(), false},\n"
             "                                       {to->storage().get(), true}};\n",
         new="  const bool unread = MUTATED(OperandsAreNotTouched);\n"
             "  const bool unwritten = MUTATED(ResultsAreNotTouched);\n"
             "  const internal::Touched touched[] = {\n"
             "      {(unread ? *to : a).storage().get(), unread},\n"
             "      {(unread ? *to : b).storage().get(), unread},\n"
             "      {(unwritten ? a : *to).storage().get(), !unwritten}};\n"),
    Edit("ops/reduce.cc",
         old="  const internal::Touched touched[] = {{x.storage().get(), false},",
         new="  const bool mutated = MUTATED(ReducedIsNotTouched);\n"
             "  const internal::Touched touched[] = {\n"
             "      {(mutated ? result : x).storage().get(), mutated},"),
]
