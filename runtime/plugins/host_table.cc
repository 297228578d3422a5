// SPDX-License-Identifier: Apache-2.0
#include "runtime/plugins/host_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "devrt/backends/abi/devrt_own_query.h"
#include "devrt/backends/abi/devrt_program_stack.h"
#include "devrt/backends/abi/devrt_stream_number.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/thread_state.h"
#include "runtime/plugins/stream_numbers.h"

namespace devrt::internal {

__thread NotedStream t_noted_streams[2]
    __attribute__((tls_model("initial-exec"))) = {};
std::atomic<bool> g_stream_numbers_wanted{false};

void KeepStream(devrt_stream handle, StreamFactsFn facts, const void* record) {
  if (t_noted_streams[0].handle != handle) {
    t_noted_streams[1] = t_noted_streams[0];
  }
  t_noted_streams[0] = {handle, facts, record};
}

namespace {

constexpr int kCodes = DEVRT_DATA_LOSS + 1;

devrt_code Checked(devrt_code code) {
  return code > DEVRT_OK && code < kCodes ? code : DEVRT_UNKNOWN;
}

// One error for each code, made at start while memory is available.
struct StaticErrors {
  std::array<devrt_error, kCodes> errors;
  StaticErrors() {
    for (int i = 0; i < kCodes; ++i) {
      errors[i].code = i;
      errors[i].is_static = true;
      errors[i].text = "no memory for the text of this error";
    }
  }
};

devrt_status StaticError(devrt_code code) {
  static StaticErrors* const table = new StaticErrors;
  return &table->errors[Checked(code)];
}

devrt_status ErrorCreate(void*, devrt_code code, int64_t native_code,
                         const char* text, uint64_t size) {
  return MakeError(code, native_code, text, size);
}

void ErrorSetOrigin(void*, devrt_status error,
                    const devrt_error_origin_v0* origin) {
  if (error == nullptr || error->is_static || origin == nullptr) return;
  devrt_error_origin_v0 full = {};
  full.device = -1;
  std::memcpy(&full, origin,
              std::min<size_t>(origin->struct_size, sizeof full));
  error->flags = full.flags;
  error->native_code = full.native_code;
  error->native_stream = full.native_stream;
  error->device = full.device;
  try {
    if (full.native_name != nullptr) error->native_name = full.native_name;
    if (full.entry_point != nullptr) error->entry_point = full.entry_point;
  } catch (...) {
    // The names are optional; flags and numbers are kept.
  }
}

devrt_code ErrorCode(void*, devrt_status error) {
  return error == nullptr ? DEVRT_OK : error->code;
}

const char* ErrorText(void*, devrt_status error, uint64_t* size) {
  const bool none = error == nullptr;
  if (size != nullptr) *size = none ? 0 : error->text.size();
  return none ? "" : error->text.c_str();
}

void ErrorDestroy(void*, devrt_status error) { DestroyError(error); }

int32_t LogMinLevel(void*) { return static_cast<int32_t>(GetLogLevel()); }

void HostLog(void*, int32_t level, const char* file, int32_t line,
             const char* text, uint64_t size) {
  const int32_t known = std::clamp(level, DEVRT_LOG_DEBUG, DEVRT_LOG_ERROR);
  try {
    Log(static_cast<LogLevel>(known), file, line,
        text == nullptr ? std::string_view() : std::string_view(text, size));
  } catch (...) {
    // An exception of a sink must not unwind the plugin.
  }
}

const devrt_call_site_v0* HostCallSite(void*) { return &t_state.site; }

StreamFacts FactsOf(devrt_stream stream) {
  for (const NotedStream& noted : t_noted_streams) {
    if (noted.handle != stream || stream == nullptr) continue;
    return noted.facts(noted.record, stream);
  }
  return {0, true};
}

uint64_t HostStreamNumber(void*, devrt_stream stream) {
  return FactsOf(stream).number;
}

uint32_t HostMayBeCaptured(void*, devrt_stream stream) {
  return FactsOf(stream).may_be_captured ? 1 : 0;
}

constexpr devrt_stream_number_v0 kStreamNumber = {
    sizeof(devrt_stream_number_v0), 0, &HostStreamNumber, &HostMayBeCaptured};

uint32_t HostIsOwnQuery(void*) { return t_state.asks_for_devrt ? 1 : 0; }

constexpr devrt_own_query_v0 kOwnQuery = {sizeof(devrt_own_query_v0), 0,
                                          &HostIsOwnQuery};

void HostWantFrames(void*, uint32_t wanted) {
  if (wanted != 0) {
    GetProgramStacks().wants.fetch_add(1);
  } else {
    GetProgramStacks().wants.fetch_sub(1);
  }
}

const devrt_program_frames_v0* HostFrames(void*) {
  if (t_state.frames != nullptr) return t_state.frames;
  const auto note = GetProgramStacks().note.load();
  return note == nullptr ? nullptr : note();
}

const void* HostInterpreter(void*, uint32_t index) {
  const auto& known = GetProgramStacks().interpreter;
  return index < std::size(known) ? known[index].load() : nullptr;
}

constexpr devrt_program_stack_v0 kProgramStack = {
    sizeof(devrt_program_stack_v0), 0, &HostWantFrames, &HostFrames,
    &HostInterpreter};

const void* HostGetExtension(void*, const char* name) {
  if (name == nullptr) return nullptr;
  if (std::strcmp(name, DEVRT_OWN_QUERY_EXTENSION) == 0) return &kOwnQuery;
  if (std::strcmp(name, DEVRT_PROGRAM_STACK_EXTENSION) == 0) {
    return &kProgramStack;
  }
  if (std::strcmp(name, DEVRT_STREAM_NUMBER_EXTENSION) != 0) return nullptr;
  g_stream_numbers_wanted.store(true, std::memory_order_relaxed);
  return &kStreamNumber;
}

constexpr devrt_host_v0 kHost = {
    sizeof(devrt_host_v0), DEVRT_ABI_MINOR, nullptr,       &ErrorCreate,
    &ErrorSetOrigin,       &ErrorCode,      &ErrorText,    &ErrorDestroy,
    &LogMinLevel,          &HostLog,        &HostCallSite, &HostGetExtension,
};

}  // namespace

const devrt_host_v0* HostTable() {
  StaticError(DEVRT_UNKNOWN);  // makes all static errors
  return &kHost;
}

devrt_status MakeError(devrt_code code, int64_t native_code, const char* text,
                       uint64_t size) {
  devrt_error* error = nullptr;
  try {
    error = new devrt_error;
    error->code = Checked(code);
    error->native_code = native_code;
    if (text != nullptr) error->text.assign(text, size);
    return error;
  } catch (...) {
    delete error;
    return StaticError(code);
  }
}

devrt_status MakeMissingSlotError(const char* slot) {
  const std::string text = absl::StrCat("slot ", slot, " is not implemented");
  devrt_status error =
      MakeError(DEVRT_UNIMPLEMENTED, 0, text.data(), text.size());
  if (!error->is_static) error->missing_slot = slot;
  return error;
}

void DestroyError(devrt_status error) {
  if (error != nullptr && !error->is_static) delete error;
}

ErrorInfo InfoOf(const devrt_error& error, const std::string& backend) {
  ErrorInfo info;
  info.backend = backend;
  info.device = error.device;
  info.native_code = error.native_code;
  info.native_name = error.native_name;
  info.entry_point = error.entry_point;
  info.native_stream = error.native_stream;
  info.sticky = (error.flags & DEVRT_ERROR_STICKY) != 0;
  info.async = (error.flags & DEVRT_ERROR_ASYNC) != 0;
  return info;
}

absl::StatusCode ToStatusCode(devrt_code code) {
  return static_cast<absl::StatusCode>(Checked(code));
}

std::string DescribeError(const devrt_error& error) {
  std::vector<std::string> notes;
  const auto note = [&](const std::string& part, const char* before) {
    if (part.empty() || error.text.find(part) != std::string::npos) return;
    notes.push_back(absl::StrCat(before, part));
  };
  note(error.native_name, "");
  if (error.native_code != 0) {
    notes.push_back(absl::StrCat("code ", error.native_code));
  }
  note(error.entry_point, "in ");
  const std::string text = error.text.empty() ? "no text given" : error.text;
  if (notes.empty()) return text;
  return absl::StrCat(text, " (", absl::StrJoin(notes, ", "), ")");
}

}  // namespace devrt::internal
