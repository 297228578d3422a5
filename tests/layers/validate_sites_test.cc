// SPDX-License-Identifier: Apache-2.0
//
// The call site that plugins and layers see while the validate layer is there:
// devrt tells that layer of objects, and such a call has a site of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

// The line of each record of an event and of each wait for one; 0: no site.
std::vector<int> g_lines;

class Sites {
 public:
  Sites(const devrt_next_v0*, const devrt_host_v0* host) : host_(host) {}

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    using layer::CallId;
    if constexpr (Call::kId == CallId::event_record ||
                  Call::kId == CallId::stream_wait_event) {
      const devrt_call_site_v0* const site = host_->call_site(host_->host);
      const bool here = site->file != nullptr && site->file == here_;
      g_lines.push_back(here ? site->line : 0);
    }
    return call(args...);
  }

 private:
  const devrt_host_v0* host_;
  const std::string here_ = __FILE__;
};
DEVRT_STATIC_LAYER(Sites, sites, "sites", "devrt tests", "1.0");

TEST(ValidateSites, AWaitOfAStreamForAStreamShowsItsOwn) {
  InChild([] {
    EXPECT_OK(RegisterLayer(&sites_manifest, &sites_open));
    EXPECT_OK(SetLayers({"sites"}));
    const TwoStreams s;
    g_lines.clear();
    EXPECT_OK(s.a.Wait(s.b));
    EXPECT_THAT(g_lines, SizeIs(2));
    EXPECT_THAT(g_lines, Each(__LINE__ - 2));
  });
}

}  // namespace
}  // namespace devrt::testing
