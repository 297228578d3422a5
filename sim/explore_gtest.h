// SPDX-License-Identifier: Apache-2.0
//
// Checked makes a body for devrt::sim::Explore of one with GoogleTest's
// assertions: a failed assertion fails the run.
//
//   const devrt::sim::Result result =
//       devrt::sim::Explore({}, devrt::sim::Checked([] {
//         EXPECT_TRUE(RunPipeline().ok());
//       }));
//   EXPECT_TRUE(result.ok()) << result.text();
//
// The assertions fail the run and not the test, so that Explore can try the
// schedule again; the test fails by its last line.
//
// devrt does not need GoogleTest; only programs that include this header do.
//
// Threads: assertions in threads of the body count as well.

#ifndef DEVRT_SIM_EXPLORE_GTEST_H_
#define DEVRT_SIM_EXPLORE_GTEST_H_

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "devrt/sim/explore.h"

namespace devrt::sim {

// Returns a body that runs `body` and fails if an assertion of it fails.
inline Body Checked(std::function<void()> body) {
  return Body([body = std::move(body)]() -> absl::Status {
    using Reporter = ::testing::ScopedFakeTestPartResultReporter;
    ::testing::TestPartResultArray results;
    {
      const Reporter reporter(Reporter::INTERCEPT_ALL_THREADS, &results);
      body();
    }
    std::string text, place;
    for (int i = 0; i < results.size(); ++i) {
      const ::testing::TestPartResult& part = results.GetTestPartResult(i);
      if (!part.failed()) continue;
      const std::string where =
          std::string(part.file_name() != nullptr ? part.file_name() : "?") +
          ":" + std::to_string(part.line_number());
      if (place.empty()) place = where;
      text += (text.empty() ? "" : "\n") + where + ": " + part.message();
    }
    if (text.empty()) return absl::OkStatus();
    absl::Status status = absl::InternalError(text);
    SetFailureKey(place, &status);
    return status;
  });
}

}  // namespace devrt::sim

#endif  // DEVRT_SIM_EXPLORE_GTEST_H_
