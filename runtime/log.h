// SPDX-License-Identifier: Apache-2.0
//
// Where devrt's own messages go: stderr, or a sink of the program's.
//
// Destructors, which cannot return errors, write here.  The level is a warning
// unless DEVRT_LOG=debug|info|warning|error|off or SetLogLevel says otherwise.

#ifndef DEVRT_RUNTIME_LOG_H_
#define DEVRT_RUNTIME_LOG_H_

#include <string_view>

#include "devrt/runtime/export.h"

namespace devrt {

enum class LogLevel { kDebug = 0, kInfo, kWarning, kError, kOff };

// Called with one line, without a newline at its end, from any thread, also
// several at a time.  Must not call devrt, and must return: a line at which it
// threw or called pthread_exit goes to stderr.
using LogSink = void (*)(LogLevel level, const char* file, int line,
                         std::string_view text);

// nullptr restores stderr.  [any thread]
DEVRT_EXPORT void SetLogSink(LogSink sink);
DEVRT_EXPORT void SetLogLevel(LogLevel level);
DEVRT_EXPORT LogLevel GetLogLevel();

// Writes if `level` is at least the current one.
DEVRT_EXPORT void Log(LogLevel level, const char* file, int line,
                      std::string_view text);

}  // namespace devrt

#define DEVRT_LOG(level, text) \
  ::devrt::Log(::devrt::LogLevel::level, __FILE__, __LINE__, (text))

#endif  // DEVRT_RUNTIME_LOG_H_
