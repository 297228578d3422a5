// SPDX-License-Identifier: Apache-2.0
//
// The template of `devrt new-backend`, which is data in the command.

#ifndef DEVRT_TOOLS_NEW_BACKEND_H_
#define DEVRT_TOOLS_NEW_BACKEND_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace devrt::tools {

// A file of backends/template/.
struct TemplateFile {
  const char* language;  // "c++" or "c"
  const char* name;      // "memory.cc"
  const char* text;
};
// Made by embed_template.py.
extern const TemplateFile kTemplate[];
extern const size_t kTemplateSize;

// INVALID_ARGUMENT unless `name` can be the name of a backend, of its files and
// of the functions in its sources.
absl::Status CheckBackendName(std::string_view name);

// The text of a template's file for the backend `name`.
std::string Instantiate(std::string_view text, std::string_view name);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_NEW_BACKEND_H_
