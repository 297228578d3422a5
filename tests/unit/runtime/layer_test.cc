// SPDX-License-Identifier: Apache-2.0
//
// Layers: what they see, their order, their files, and bad choices.

#include "devrt/runtime/layer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/fake_backend.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeBackend;
using ::testing::HasSubstr;
using testing::InChild;
using ::testing::IsEmpty;
using testing::kInvalid;
using testing::Must;
using testing::PluginDirectory;
using testing::PluginPath;
using testing::StatusIs;
using testing::TemporaryFolder;

// The calls that the layers of this program saw: "NAME.CALL", and "~NAME" for
// an end.
std::vector<std::string>& Seen() {
  static auto* const seen = new std::vector<std::string>;
  return *seen;
}

template <char kName>
class Noter {
 public:
  explicit Noter(const devrt_next_v0*) {}

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    Seen().push_back(std::string(1, kName) + "." + Call::kName);
    return call(args...);
  }
};

// Refuses every allocation itself.
class Thrower {
 public:
  explicit Thrower(const devrt_next_v0* next) {
    if (std::string(next->manifest->backend) == "unwanted") {
      throw std::runtime_error("not this one");
    }
  }
  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) {
    if constexpr (Call::kId == layer::CallId::alloc) {
      throw std::runtime_error("no memory today");
    }
    return call(args...);
  }
};

// Asks for extensions of what is behind, as it is attached.
class Asker {
 public:
  explicit Asker(const devrt_next_v0* next) {
    void* self = this;
    EXPECT_EQ(next->extension(next, "no.such/0", &self), nullptr);
    self = this;
    EXPECT_NE(next->extension(next, DEVRT_SIM_EXTENSION, &self), nullptr);
    EXPECT_EQ(self, next->self);
    Seen().push_back("asked");
  }
  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    return call(args...);
  }
};

DEVRT_STATIC_LAYER(Noter<'a'>, noter_a, "noter_a", "devrt tests", "1.0");
DEVRT_STATIC_LAYER(Noter<'b'>, noter_b, "noter_b", "devrt tests", "1.0");
DEVRT_STATIC_LAYER(Asker, asker, "asker", "devrt tests", "1.0");
DEVRT_STATIC_LAYER(Thrower, thrower, "thrower", "devrt tests", "1.0");

void RegisterAll() {
  Must(RegisterLayer(&noter_a_manifest, noter_a_open));
  Must(RegisterLayer(&noter_b_manifest, noter_b_open));
  Must(RegisterLayer(&thrower_manifest, thrower_open));
}

// Every test is a process of its own: layers are chosen once.
TEST(LayerTest, TheFirstIsTheOutermost) {
  InChild([] {
    RegisterAll();
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    EXPECT_THAT(Layers(), IsEmpty());
    EXPECT_OK(SetLayers({"noter_a", "noter_b"}));
    EXPECT_THAT(Layers(), ElementsAre("noter_a", "noter_b"));
    const Device device = fake.device(0);
    Seen().clear();
    EXPECT_OK(device.Synchronize());
    EXPECT_THAT(Seen(), ElementsAre("a.device_sync", "b.device_sync"));
    EXPECT_EQ(fake.Calls("device_sync"), 1);
    Seen().clear();
    void* block = Must(Allocate(device, 64));
    EXPECT_OK(Free(device, block));
    EXPECT_THAT(Seen(), AllOf(Contains("a.alloc"), Contains("b.dealloc")));
  });
}

TEST(LayerTest, NoneIsNoLayer) {
  InChild([] {
    RegisterAll();
    setenv("DEVRT_LAYERS", "noter_a", 1);
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    EXPECT_OK(SetLayers({}));  // instead of DEVRT_LAYERS
    EXPECT_OK(fake.device(0).Synchronize());
    EXPECT_THAT(Seen(), IsEmpty());
  });
}

TEST(LayerTest, ByEnvironment) {
  InChild([] {
    RegisterAll();
    setenv("DEVRT_LAYERS", " noter_b ,,noter_a", 1);
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    const Device device = fake.device(0);
    Seen().clear();
    EXPECT_OK(device.Synchronize());
    EXPECT_THAT(Seen(), ElementsAre("b.device_sync", "a.device_sync"));
    EXPECT_THAT(Layers(), ElementsAre("noter_b", "noter_a"));
  });
}

TEST(LayerTest, ErrorsAndExceptionsOfALayer) {
  InChild([] {
    RegisterAll();
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    FakeBackend::Register("unwanted", 1);
    EXPECT_OK(SetLayers({"thrower"}));
    EXPECT_THAT(Allocate(fake.device(0), 64),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("a layer threw an exception in alloc: no "
                                   "memory today")));
    EXPECT_EQ(fake.Calls("alloc"), 0);
    EXPECT_OK(fake.device(0).Synchronize());
    EXPECT_THAT(GetBackend("unwanted"),
                StatusIs(absl::StatusCode::kInternal,
                         AllOf(HasSubstr("layer \"thrower\""),
                               HasSubstr("not this one"))));
  });
}

// Extensions pass layers too, and a layer may stay out of them.
TEST(LayerTest, ExtensionsPassLayersThatWantThem) {
  InChild([] {
    RegisterAll();
    setenv("DEVRT_PLUGIN_PATH",
           (PluginDirectory() + "/../../../lib/devrt").c_str(), 1);
    EXPECT_OK(SetLayers({"noter_a"}));
    const Device device = Must(GetDevice("mtia:0"));
    {
      Stream stream = Must(Stream::Create(device));
      Seen().clear();
      EXPECT_OK(Spin(stream, 10));
      EXPECT_THAT(Seen(), Contains("a.probe.spin"));
      bool ran = false;
      EXPECT_OK(Launch(stream, {}, [&](const LaunchContext&) { ran = true; }));
      EXPECT_OK(stream.Synchronize());
      EXPECT_TRUE(ran);
      EXPECT_THAT(Seen(), Contains("a.launch.launch"));
    }
    EXPECT_OK(Must(Simulator::Get()).Reset());  // not interposed
    EXPECT_OK(Shutdown());
  });
}

TEST(LayerTest, LayerGetsExtensionsWithTheirArguments) {
  InChild([] {
    Must(RegisterLayer(&asker_manifest, asker_open));
    setenv("DEVRT_PLUGIN_PATH",
           (PluginDirectory() + "/../../../lib/devrt").c_str(), 1);
    EXPECT_OK(SetLayers({"asker"}));
    EXPECT_OK(GetDevice("mtia:0"));
    EXPECT_THAT(Seen(), Contains("asked"));
    EXPECT_OK(Shutdown());
  });
}

TEST(LayerTest, LayersAreLoadedFromFiles) {
  InChild([] {
    setenv("DEVRT_LAYERS", (PluginPath("layer_one_slot") + ",counter").c_str(),
           1);
    setenv("DEVRT_LAYER_PATH", ("/nowhere:" + PluginDirectory()).c_str(), 1);
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    const Device device = fake.device(0);
    const uint64_t before = fake.used(0);
    void* block = Must(Allocate(device, 64));
    EXPECT_EQ(fake.used(0) - before, 128u);  // one_slot asked for more
    EXPECT_OK(Free(device, block));
    EXPECT_OK(device.GetMemoryInfo());
    EXPECT_STREQ(getenv("LAYER_COUNTER_fake"), "3");
    EXPECT_THAT(Layers(), ElementsAre("one_slot", "counter"));
    EXPECT_THAT(LoadReportText(),
                AllOf(HasSubstr("loaded    DEVRT_LAYERS"),
                      HasSubstr("one_slot 1.0"), HasSubstr("counter 1.0")));
    EXPECT_OK(Shutdown());
  });
}

TEST(LayerTest, MissingLayerIsNamedWithSuggestions) {
  InChild([] {
    TemporaryFolder folder;
    setenv("DEVRT_LAYERS", "noter_a,trase", 1);
    setenv("DEVRT_LAYER_PATH", folder.path().c_str(), 1);
    // Known by the names of their files; nothing of them is looked at.
    for (const char* name : {"layer_zebra", "layer_No", "layer_", "mtia"}) {
      std::ofstream(folder.path() + "/libdevrt_" + name + ".so") << name;
    }
    RegisterAll();
    FakeBackend::Register("fake", 1);
    const auto missing = StatusIs(
        absl::StatusCode::kNotFound,
        AllOf(HasSubstr("DEVRT_LAYERS=\"noter_a,trase\": no layer \"trase\" "
                        "was found; known layers: noter_a, noter_b, thrower, "
                        "zebra; searched: "),
              HasSubstr(folder.path()), HasSubstr("libdevrt_layer_trase.so")));
    EXPECT_THAT(GetBackend("fake"), missing);
    EXPECT_THAT(GetDevice("fake:0"), missing);
    EXPECT_THAT(Layers(), IsEmpty());
    EXPECT_OK(SetLayers({"noter_a"}));  // nothing is open: not too late
    EXPECT_OK(GetBackend("fake"));
  });
}

TEST(LayerTest, BadChoices) {
  InChild([] {
    RegisterAll();
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    EXPECT_OK(SetLayers({"noter_b"}));
    EXPECT_THAT(SetLayers({"noter_a", "noter_a"}),
                StatusIs(kInvalid, HasSubstr("\"noter_a\" is named twice")));
    EXPECT_THAT(SetLayers({""}), StatusIs(kInvalid, HasSubstr("empty")));
    EXPECT_THAT(SetLayers({"./x.so"}),
                StatusIs(kInvalid, HasSubstr("absolute path")));
    EXPECT_THAT(SetLayers({PluginPath("good")}),
                StatusIs(kInvalid, HasSubstr("not a devrt layer")));
    EXPECT_THAT(SetLayers({"/nowhere/x.so"}),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
    EXPECT_THAT(LoadBackend(PluginPath("layer_counter")),
                StatusIs(kInvalid, HasSubstr("not a devrt plugin")));
    EXPECT_THAT(Layers(), ElementsAre("noter_b"));
    EXPECT_OK(fake.device(0).Synchronize());
    EXPECT_THAT(SetLayers({}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("\"fake\" is open")));
  });
}

TEST(LayerTest, RegistrationRefusesDoublesAndBadManifests) {
  InChild([] {
    RegisterAll();
    EXPECT_THAT(
        RegisterLayer(&noter_a_manifest, noter_a_open),
        StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("\"noter_a\"")));
    EXPECT_THAT(RegisterLayer(nullptr, noter_a_open),
                StatusIs(kInvalid, HasSubstr("manifest")));
    EXPECT_THAT(RegisterLayer(&noter_a_manifest, nullptr),
                StatusIs(kInvalid, HasSubstr("open function")));
    devrt_manifest_v0 wrong = noter_a_manifest;
    wrong.magic[6] = 'L';
    EXPECT_THAT(RegisterLayer(&wrong, noter_a_open),
                StatusIs(kInvalid, HasSubstr("DEVRTLY")));
  });
}

TEST(LayerTest, AfterShutdownAndFork) {
  InChild([] {
    EXPECT_OK(Shutdown());
    EXPECT_THAT(SetLayers({}),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("")));
    EXPECT_THAT(Layers(), IsEmpty());
  });
}

}  // namespace
}  // namespace devrt
