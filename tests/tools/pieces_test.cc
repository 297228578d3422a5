// SPDX-License-Identifier: Apache-2.0
//
// Pieces of the command that its own tests cannot reach.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tools/common/arguments.h"
#include "tools/common/json.h"
#include "tools/common/program.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/demo/pipeline.h"
#include "tools/timeline/findings_file.h"
#include "tools/timeline/timeline.h"
#include "tools/topo/machine_links.h"

namespace devrt::tools {
namespace {

namespace fs = std::filesystem;

TEST(FindDifference, NamesTheFirstWrongValue) {
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < 100; ++i)
    values.push_back((3 * i + 1) * (3 * i + 1));
  const auto expected = [](size_t i) {
    return AfterKernels(static_cast<uint32_t>(i), 2);
  };
  EXPECT_FALSE(FindDifference(values.data(), values.size(), expected));
  values[80] = 7;
  values[17] = 5;
  const auto difference =
      FindDifference(values.data(), values.size(), expected);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->index, 17u);
  EXPECT_EQ(difference->found, 5u);
  EXPECT_EQ(difference->expected, 52u * 52u);
}

TEST(AfterKernels, EveryDeviceCounts) {
  EXPECT_EQ(AfterKernels(0, 2), 1u);
  EXPECT_EQ(AfterKernels(0, 3), 4u);  // 3 * ((3 * 0 + 1) squared) + 1
}

TEST(ReadFindings, TellsWhichFindingsAWaitMends) {
  const auto pair = [](const std::string& kind) {
    const std::string operation =
        R"({"name":"k","actor":"stream 1","site":"a.cc:1","number":1})";
    return R"({"id":"race-)" + kind + R"(","kind":")" + kind +
           R"(","text":"t","remedy":"r","near_misses":[],"earlier":)" +
           operation + R"(,"later":)" + operation + "}\n";
  };
  const CheckedRun run =
      ReadFindings(pair("read-after-write") + pair("use-after-free") +
                   pair("wrong-device") + pair("of-a-newer-layer") +
                   R"({"id":"leak-1","kind":"leak","text":"t","remedy":"r",)"
                   R"("heading":"h","participants":[]})");
  EXPECT_EQ(run.damaged, 0u);
  using Subject = CheckedFinding::Subject;
  std::vector<Subject> subjects;
  for (const CheckedFinding& finding : run.findings) {
    subjects.push_back(finding.subject);
    EXPECT_EQ(finding.LacksOrder(), finding.subject == Subject::kOrder);
    EXPECT_EQ(finding.IsOfPair(), finding.kind != "leak");
  }
  const std::vector<Subject> expected = {Subject::kOrder, Subject::kUse,
                                         Subject::kUse, Subject::kOrder,
                                         Subject::kObjects};
  EXPECT_EQ(subjects, expected);
}

TEST(JsonWriter, EscapesControlBytesAndInvalidUtf8) {
  JsonWriter json;
  json.BeginArray();
  json.String(std::string("\"\\\n\x01 \xC3\xA9 \xFF\xC3", 10)).End();
  EXPECT_EQ(json.TakeLine(),
            "[\"\\\"\\\\\\n\\u0001 \xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD\"]");
}

TEST(JsonWriter, NestsAndSeparates) {
  const auto write = [](JsonWriter* json) {
    json->BeginObject().Key("b").BeginArray().End().Key("a");
    json->BeginObject().Key("c").Number(-1).Key("d").Null().End();
    json->Key("e").Bool(true).Key("f").Decimal(1.2504);
    json->Key("g").Decimal(std::numeric_limits<double>::infinity()).End();
  };
  JsonWriter json;
  const std::string line =
      R"({"b":[],"a":{"c":-1,"d":null},"e":true,"f":1.25,"g":null})";
  for (int i = 0; i < 2; ++i) {  // the writer is empty after each
    write(&json);
    EXPECT_EQ(json.TakeLine(), line);
  }
  write(&json);
  EXPECT_EQ(
      std::move(json).Finish(),
      "{\n  \"b\": [],\n  \"a\": {\n    \"c\": -1,\n    \"d\": null\n  },\n"
      "  \"e\": true,\n  \"f\": 1.25,\n  \"g\": null\n}\n");
}

// 12 digits before the point and 3 behind it are not rounded to fewer.
TEST(JsonWriter, TimesOfLongTraces) {
  JsonWriter json;
  json.Decimal(123456789012.345);
  EXPECT_EQ(json.TakeLine(), "123456789012.345");
}

// A folder like /sys, which goes with its object.
class Sysfs {
 public:
  Sysfs() {
    std::string folder = testing::TempDir() + "/sysfs-XXXXXX";
    root_ = mkdtemp(folder.data());
  }
  ~Sysfs() { fs::remove_all(root_); }
  std::string root() const { return root_; }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void AddPci(const std::string& path, const std::string& node) {
    const std::string folder = "devices/" + path;
    Write(folder + "/numa_node", node + "\n");
    Write(folder + "/local_cpulist", "0-7\n");
    fs::create_directories(root_ / "bus/pci/devices");
    fs::create_symlink(root_ / folder,
                       root_ / "bus/pci/devices" / fs::path(path).filename());
  }

 private:
  fs::path root_;
};

TEST(MachineLinks, PcieFromTheNearestToTheFarthest) {
  Sysfs sysfs;
  // A switch with two devices, one more below that host bridge, another bridge
  // of the node, another node, and one whose node is not told.
  sysfs.AddPci("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0",
               "0");
  sysfs.AddPci("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0",
               "0");
  sysfs.AddPci("pci0000:15/0000:15:02.0/0000:1a:00.0", "0");
  sysfs.AddPci("pci0000:20/0000:20:01.0/0000:21:00.0", "0");
  sysfs.AddPci("pci0000:80/0000:80:01.0/0000:81:00.0", "1");
  sysfs.AddPci("pci0000:90/0000:90:01.0/0000:91:00.0", "-1");
  sysfs.Write("devices/system/node/node0/cpulist", "0-7\n");
  sysfs.Write("devices/system/node/node1/cpulist", "8-15\n");
  const MachineLinks machine(sysfs.root());
  const auto from = [&](const char* other) {
    return machine.LinkBetween("0000:18:00.0", other);
  };
  EXPECT_EQ(from("0000:19:00.0"), LinkKind::kPcieSwitch);
  EXPECT_EQ(from("0000:1a:00.0"), LinkKind::kHostBridge);
  EXPECT_EQ(from("0000:21:00.0"), LinkKind::kNode);
  EXPECT_EQ(from("0000:81:00.0"), LinkKind::kSystem);
  EXPECT_EQ(from("0000:91:00.0"), LinkKind::kUnknown);
  EXPECT_EQ(from("0000:ff:00.0"), LinkKind::kUnknown);
  EXPECT_EQ(from(""), LinkKind::kUnknown);
  EXPECT_EQ(machine.numa_nodes(), 2);
  const PciPlace place = machine.PlaceOf("0000:81:00.0");
  EXPECT_EQ(place.numa_node, 1);
  EXPECT_EQ(place.cpus, "0-7");
  EXPECT_EQ(machine.PlaceOf("").numa_node, -1);
}

TEST(MachineLinks, XgmiIsReadFromSysfs) {
  Sysfs sysfs;
  const std::string nodes = "class/kfd/kfd/topology/nodes/";
  sysfs.Write(nodes + "0/properties", "cpu_cores_count 8\nlocation_id 0\n");
  sysfs.Write(nodes + "1/properties", "domain 0\nlocation_id 768\n");
  sysfs.Write(nodes + "2/properties", "domain 0\nlocation_id 9984\n");
  sysfs.Write(nodes + "1/io_links/0/properties",
              "type 2\nnode_from 1\nnode_to 0\n");
  sysfs.Write(nodes + "1/io_links/1/properties",
              "type 11\nnode_from 1\nnode_to 2\n");
  const MachineLinks machine(sysfs.root());
  EXPECT_EQ(machine.LinkBetween("0000:03:00.0", "0000:27:00.0"),
            LinkKind::kXgmi);
  EXPECT_EQ(machine.LinkBetween("0000:27:00.0", "0000:03:00.0"),
            LinkKind::kUnknown);  // only what the kernel says
}

TEST(MachineLinks, NvlinkIsReadFromNvml) {
  const MachineLinks machine("/nowhere");
  ASSERT_TRUE(machine.sees_nvlink());  // tests/tools/fake_nvml
  EXPECT_EQ(machine.LinkBetween("0000:01:00.0", "0000:02:00.0"),
            LinkKind::kNvlink);
  EXPECT_EQ(machine.LinkBetween("0000:01:00.0", "0000:03:00.0"),
            LinkKind::kUnknown);
  EXPECT_EQ(machine.LinkBetween("0000:01:00.0", "0000:04:00.0"),
            LinkKind::kUnknown);
}

TEST(MachineLinks, AMachineThatTellsNothing) {
  const MachineLinks machine("/nowhere");
  EXPECT_EQ(machine.numa_nodes(), 0);
  EXPECT_EQ(machine.LinkBetween("0000:03:00.0", "0000:27:00.0"),
            LinkKind::kUnknown);
}

TEST(Text, BytesAndTimesHaveUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(5 << 19), "2.5 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{80} << 30), "80 GiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<uint64_t>::max()), "16777216 TiB");
  EXPECT_EQ(FormatTime(0), "0 ns");
  EXPECT_EQ(FormatTime(41'349), "41.3 us");
  EXPECT_EQ(FormatTime(999'960), "1 ms");
  EXPECT_EQ(FormatTime(1'250'000), "1.25 ms");
}

TEST(Text, WrapsBetweenWords) {
  EXPECT_EQ(Wrap("one two three", 7, 0), "one two\nthree");
  EXPECT_EQ(Wrap("one two", 7, 4), "one\n    two");
  EXPECT_EQ(Wrap("a word-longer-than-that b", 6, 0),
            "a\nword-longer-than-that\nb");
  EXPECT_EQ(Wrap("one\n\ntwo", 80, 0), "one\n\ntwo");
}

TEST(Text, OnlyCharactersAreLeft) {
  EXPECT_EQ(ValidUtf8("\xE2\x96\x88\xED\xA0\x80x"),
            "\xE2\x96\x88\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDx");
  EXPECT_EQ(Printable("a\x1b[31m\n"), "a?[31m?");
  EXPECT_EQ(Columns("\xE2\x96\x88x"), 2u);
}

TEST(Nearest, FindsTypingErrorsOnly) {
  const std::vector<std::string> choices = {"--devices", "--size", "--svg"};
  EXPECT_EQ(Nearest("--device", choices), "--devices");
  EXPECT_EQ(Nearest("size", choices), "--size");
  EXPECT_EQ(Nearest("--sgv", choices), "--svg");
  EXPECT_EQ(Nearest("--threads", choices), "");
  EXPECT_EQ(Nearest("", choices), "");
  EXPECT_EQ(Nearest("-", choices), "");
}

TEST(AxisScale, HasRoundStepsAndFewMarks) {
  for (const uint64_t elapsed :
       {1ull, 999ull, 434'000ull, 1'000'000ull, 12'345'678'901ull}) {
    const AxisScale scale = ChooseScale(elapsed, 8);
    EXPECT_LT(elapsed / scale.step_ns, 8u);
    EXPECT_EQ(scale.step_ns % scale.unit_ns, 0u);
  }
  EXPECT_EQ(ChooseScale(434'000, 10).step_ns, 50'000u);
  EXPECT_STREQ(ChooseScale(434'000, 10).unit, "us");
}

TEST(Timeline, EmptyTimelineIsDrawn) {
  Timeline timeline;
  timeline.rows = {{"mtia:0", "compute"}};
  EXPECT_EQ(timeline.overlap(), 0);
  EXPECT_FALSE(TerminalTimeline(timeline, Terminal()).empty());
  EXPECT_FALSE(SvgTimeline(timeline).empty());
  EXPECT_FALSE(TraceTimeline(timeline).empty());
}

TEST(Timeline, EventsAndTheirArrowsAreDrawn) {
  Timeline timeline;
  timeline.rows = {{"mtia:0", "copies"},
                   {"mtia:0", "a <name> that is too long"}};
  TimelineOp copy, record, kernel;
  copy.name = "copy";
  copy.kind = OpKind::kHostToDevice;
  copy.end_ns = record.begin_ns = record.end_ns = kernel.begin_ns = 1000;
  record.name = "record";
  record.kind = OpKind::kRecord;
  record.note = "main.py:7";
  record.previous = 0;
  kernel.name = "scale";
  kernel.row = 1;
  kernel.end_ns = 3000;
  kernel.waits = {1};
  timeline.ops = {copy, record, kernel};
  EXPECT_EQ(timeline.busy_ns(), 3000u);
  const std::string svg = SvgTimeline(timeline);
  for (const char* part :
       {">copies<", ">a &lt;name&gt; that is t…<", ">event record<",
        "main.py:7", ">wait that set the start<",
        "waits for record on copies"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part << " in " << svg;
  }
}

TEST(Timeline, NoLineIsWiderThanTheTerminal) {
  Timeline timeline;
  timeline.rows = {{"mtia:0", "compute"},
                   {"mtia:0", "a long name of a stream"}};
  TimelineOp op;
  for (op.chunk = 1; op.chunk < 1000; ++op.chunk) {
    op.begin_ns = op.end_ns;
    op.end_ns += 1 + static_cast<uint64_t>(op.chunk) * 7 % 30;
    timeline.ops.push_back(op);
  }
  for (const size_t columns : {60u, 80u, 100u}) {
    Terminal terminal;
    terminal.columns = columns;
    const std::string text = TerminalTimeline(timeline, terminal);
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      EXPECT_LE(text.find('\n', at) - at, columns);
    }
  }
}

TEST(RunQuietly, HasVariablesAndTheExitCode) {
  const auto ended = RunQuietly({"sh", "-c", "cat; echo lost; exit $CODE"},
                                {{"CODE", "7"}}, std::chrono::minutes(1));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->exit_code, 7);
  EXPECT_FALSE(ended->is_late);
}

TEST(RunQuietly, KillsWhatTakesTooLong) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto ended = RunQuietly({"sh", "-c", "sleep 60 & sleep 60; exit 0"}, {},
                                std::chrono::milliseconds(20));
  ASSERT_TRUE(ended.ok());
  EXPECT_TRUE(ended->is_late);
  EXPECT_NE(ended->exit_code, 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace devrt::tools
