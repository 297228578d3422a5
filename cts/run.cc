// SPDX-License-Identifier: Apache-2.0
//
// Run: checks the options, finds the plugin's file and starts the supervisor.
#include <sha2.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/clock.h"
#include "cts/supervisor.h"
#include "devrt/cts/cts.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/inspect.h"
#include "devrt/runtime/status.h"

namespace devrt::cts {
namespace {

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

absl::Status CheckCaller() {
  size_t threads = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task", error)) {
    (void)entry;
    ++threads;
  }
  if (threads > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the conformance suite forks, which a process with ",
                     threads, " threads must not do"));
  }
  for (const LoadAttempt& attempt : LoadReport()) {
    if (attempt.result == LoadAttempt::Result::kLoaded) {
      return absl::FailedPreconditionError(
          absl::StrCat("backend \"", attempt.backend,
                       "\" is open in this process: its children cannot use "
                       "any; run the suite first"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlugin(const std::string& plugin) {
  const std::filesystem::path path = plugin;
  if (!path.is_absolute()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plugin's path \"", plugin, "\" is not absolute"));
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(
        absl::StrCat(plugin, ": ", error ? error.message() : "no such file"));
  }
  return absl::OkStatus();
}

absl::Status CheckDevices(const std::vector<int>& devices) {
  std::set<int> given;
  for (const int device : devices) {
    if (device < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device,
                       " does not exist: ordinals begin "
                       "with 0"));
    }
    if (!given.insert(device).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device, " is given twice"));
    }
  }
  return absl::OkStatus();
}

// The checks of ParseWaivers, for waivers that the caller made itself.
absl::Status CheckWaivers(const std::vector<Waiver>& waivers) {
  std::set<std::string> given;
  for (const Waiver& waiver : waivers) {
    DEVRT_RETURN_IF_ERROR(CheckWaived(waiver.what));
    if (!given.insert(waiver.what).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(waiver.what, " is waived twice"));
    }
  }
  return absl::OkStatus();
}

void DescribeFile(const std::string& path, Report* report) {
  SHA2_CTX context;
  SHA256Init(&context);
  const PluginReport file = InspectPlugin(path, [&](std::string_view piece) {
    SHA256Update(&context, reinterpret_cast<const uint8_t*>(piece.data()),
                 piece.size());
  });
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256End(&context, digest);
  report->sha256 = digest;
  if (!file.manifest.has_value()) return;
  report->backend = file.manifest->backend;
  report->vendor = file.manifest->vendor;
  report->version = file.manifest->version;
  report->abi_major = file.manifest->abi_major;
  report->abi_minor = file.manifest->abi_minor;
}

}  // namespace

absl::StatusOr<Report> Run(const Options& options, Observer* observer) {
  DEVRT_RETURN_IF_ERROR(CheckPlugin(options.plugin));
  DEVRT_RETURN_IF_ERROR(CheckDevices(options.devices));
  DEVRT_RETURN_IF_ERROR(CheckWaivers(options.waivers));
  DEVRT_ASSIGN_OR_RETURN(std::vector<size_t> chosen, Choose(options));
  DEVRT_RETURN_IF_ERROR(CheckCaller());
  Report report;
  report.plugin = options.plugin;
  report.seed = options.seed;
  report.time = UtcNow();
  report.waivers = options.waivers;
  report.verify_waivers = options.verify_waivers;
  DescribeFile(options.plugin, &report);
  const double begin = Now();
  Observer nobody;
  Supervisor supervisor(options, observer != nullptr ? observer : &nobody,
                        &report, std::move(chosen));
  DEVRT_RETURN_IF_ERROR(supervisor.Run());
  report.seconds = Now() - begin;
  return report;
}

}  // namespace devrt::cts
