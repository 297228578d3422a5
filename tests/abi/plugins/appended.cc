// SPDX-License-Identifier: Apache-2.0
//
// A plugin of the next minor version: make_minor.py makes its headers.  It
// uses all that is new there, and asks first whether the host has it.

#define GOOD_WITHOUT_SYMBOLS
#include "good_helper.cc"

namespace {

class Appended : public GoodHelper {
 public:
  explicit Appended(const devrt_host_v0* host)
      : GoodHelper(host),
        host_is_older_(!DEVRT_HAS_FIELD(host, devrt_host_v0, clock_ns)) {}

  devrt_status device_props(uint32_t device, devrt_device_props_v0* props) {
    devrt_device_props_v0 mine = {};
    mine.struct_size = sizeof mine;
    if (devrt_status error = GoodHelper::device_props(device, &mine)) {
      return error;
    }
    std::snprintf(mine.name, sizeof mine.name, "made for a newer host%s",
                  host_is_older_ ? ", on an older one" : "");
    mine.cache_bytes = ~uint64_t{0};  // beyond an older host's struct
    devrt::plugin::WriteStruct(props, mine);
    return nullptr;
  }
  devrt_status event_elapsed_ns(devrt_event, devrt_event, int64_t* elapsed) {
    *elapsed = 0;
    return nullptr;
  }
  // An older host never calls these slots.
  devrt_status stream_pause(devrt_stream) { return nullptr; }
  devrt_status device_light(uint32_t, uint32_t) { return nullptr; }

 private:
  const bool host_is_older_;
};

}  // namespace

DEVRT_DEFINE_PLUGIN(Appended, PLUGIN, "devrt tests", "1.0",
                    DEVRT_CAP_PAUSE | DEVRT_CAP_EVENT_TIMING, 500);
