// SPDX-License-Identifier: Apache-2.0

#include "examples/support/options.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace example {
namespace {

[[noreturn]] void Refuse(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(2);
}

std::string ListOf(const std::map<std::string, std::string>& values) {
  std::string list = "the options are";
  for (const auto& [key, value] : values) {
    absl::StrAppend(&list, " --", key, "=", value);
  }
  return list;
}

}  // namespace

Options::Options(int argc, char** argv,
                 std::map<std::string, std::string> known)
    : values_(std::move(known)) {
  values_.insert({{"backend", "mtia"}, {"devices", "2"}});
  values_.insert({"timeline", ""});
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    const bool option = word.rfind("--", 0) == 0 && equals != word.npos;
    const std::string name = option ? word.substr(2, equals - 2) : "";
    if (word == "--help") {
      std::printf("%s: %s\n", argv[0], ListOf(values_).c_str());
      std::exit(0);
    }
    if (values_.count(name) == 0) {
      Refuse("unknown: " + word + "; " + ListOf(values_));
    }
    values_[name] = word.substr(equals + 1);
  }
}

const std::string& Options::Text(const std::string& name) const {
  return values_.at(name);
}

int64_t Options::Number(const std::string& name, int64_t min,
                        int64_t max) const {
  int64_t number = 0;
  if (!absl::SimpleAtoi(Text(name), &number) || number < min || number > max) {
    Refuse(absl::StrCat("--", name, "=", Text(name), " is not a number from ",
                        min, " to ", max));
  }
  return number;
}

absl::StatusOr<std::vector<devrt::Device>> FindDevices(
    const Options& options, const std::string& machine) {
  const size_t wanted = static_cast<size_t>(options.Number("devices", 1, 1024));
  if (options.Text("backend") == "mtia") {
    std::string config = absl::StrCat("devices=", wanted, ",memory=4GiB");
    if (!machine.empty()) absl::StrAppend(&config, ",", machine);
    setenv("DEVRT_MTIA", config.c_str(), 0);
  }
  DEVRT_ASSIGN_OR_RETURN(std::vector<devrt::Device> devices,
                         devrt::Devices(options.Text("backend")));
  if (devices.size() < wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("--devices=", wanted, ": backend \"",
                     options.Text("backend"), "\" has ", devices.size()));
  }
  devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(wanted),
                devices.end());
  return devices;
}

int ExitCode(const absl::Status& status) {
  if (!status.ok())
    std::fprintf(stderr, "%s\n", devrt::StatusText(status).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace example
