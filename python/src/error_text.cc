// SPDX-License-Identifier: Apache-2.0
#include "python/src/error_text.h"

#include <cstring>
#include <string_view>

namespace devrt::python {
namespace {

struct Name {
  const char* text;
  const char* python;
};

constexpr Name kNames[] = {
    {"AllocateMemory", "caching_allocator_alloc"},
    {"AllocatePinned", "pinned_alloc"},
    {"Any or All", "any or all"},
    {"Cast", "astype"},
    {"Contiguous()", "contiguous()"},
    {"Copy()", "copy()"},
    {"CopyArray", "copy_"},
    {"EnablePeerAccess", "enable_peer_access"},
    {"EventOptions::interprocess", "interprocess=True"},
    {"Fill", "fill"},
    {"FreeMemory", "caching_allocator_delete"},
    {"FreePinned", "pinned_delete"},
    {"Index()", "index"},
    {"Item()", "item()"},
    {"leave the place out", "leave device out"},
    {"LoadBackend", "load_backend"},
    {"LogicalNot", "logical_not"},
    {"NotEqual", "!="},
    {"Options::shared_device", "shared_device=True"},
    {"Place::Host()", "'cpu'"},
    {"RecordMemoryHistory", "record_memory_history"},
    {"RecordStream", "record_stream"},
    {"RecordUse", "record_use"},
    {"Register: array", "register: array"},
    {"RegisterHost", "register_host"},
    {"Reshape()", "reshape"},
    {"SetDeallocationStream", "set_deallocation_stream"},
    {"SetMemoryFraction", "set_per_process_memory_fraction"},
    {"To(device)", "to(device)"},
    {"UnregisterHost", "unregister_host"},
    {"copy=true", "copy=True"},
    {"their Abs", "their abs"},
    {"use Div", "use /"},
};

// Returns true if a name may begin after, or end before, that character.
// Excludes words, paths and quotes.
bool IsBoundary(char c) { return std::strchr(" ,;:.()", c) != nullptr; }

void Replace(const Name& name, std::string* message) {
  const std::string_view wanted = name.text;
  size_t at = 0;
  while ((at = message->find(wanted, at)) != std::string::npos) {
    const size_t end = at + wanted.size();
    const bool whole = (at == 0 || IsBoundary((*message)[at - 1])) &&
                       (end == message->size() || IsBoundary((*message)[end]));
    if (whole) message->replace(at, wanted.size(), name.python);
    at += whole ? std::strlen(name.python) : wanted.size();
  }
}

}  // namespace

std::string ErrorText(const absl::Status& status) {
  return PythonText(std::string(status.message()));
}

std::string PythonText(std::string text) {
  for (const Name& name : kNames) Replace(name, &text);
  return text;
}

}  // namespace devrt::python
