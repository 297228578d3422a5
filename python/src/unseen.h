// SPDX-License-Identifier: Apache-2.0
//
// What a handler of signals raised in a wait, and nobody saw.
//
// NumPy asks an array for its buffer, drops whatever that raises, and asks on
// by other protocols: a KeyboardInterrupt would be lost, and the next question
// would wait to the end.  So it is noted, raised again by the next question,
// and at the latest when Python code goes on.  What Python code has seen has a
// longer traceback by then, and is let go.
//
// Everything here needs the GIL.

#ifndef DEVRT_PYTHON_SRC_UNSEEN_H_
#define DEVRT_PYTHON_SRC_UNSEEN_H_

namespace devrt::python {

// What is raised now stays raised, and is noted.
void NoteRaised();

// Raises what was noted, if nobody has seen it so far; whether it did.
bool RaiseUnseen();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_UNSEEN_H_
