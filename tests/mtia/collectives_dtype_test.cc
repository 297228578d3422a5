// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0 on mtia: dtypes and reductions.
#include <cstring>
#include <string>
#include <vector>

#include "tests/mtia/collectives_fixture.h"

namespace devrt::test {
namespace {

class CollectiveDtype : public CollectivesTest {};

template <typename T>
void AddValues(const std::vector<double>& values, std::string* bytes) {
  for (const double v : values) {
    const T value = static_cast<T>(v);
    bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

// `values` as elements of `dtype`.
std::string Elements(uint32_t dtype, const std::vector<double>& values) {
  std::string bytes;
  switch (dtype) {
    case DEVRT_INT8:
      AddValues<int8_t>(values, &bytes);
      break;
    case DEVRT_UINT8:
    case DEVRT_BOOL:
      AddValues<uint8_t>(values, &bytes);
      break;
    case DEVRT_INT16:
      AddValues<int16_t>(values, &bytes);
      break;
    case DEVRT_UINT16:
      AddValues<uint16_t>(values, &bytes);
      break;
    case DEVRT_INT32:
      AddValues<int32_t>(values, &bytes);
      break;
    case DEVRT_UINT32:
      AddValues<uint32_t>(values, &bytes);
      break;
    case DEVRT_INT64:
      AddValues<int64_t>(values, &bytes);
      break;
    case DEVRT_UINT64:
      AddValues<uint64_t>(values, &bytes);
      break;
    case DEVRT_FLOAT32:
      AddValues<float>(values, &bytes);
      break;
    case DEVRT_FLOAT64:
      AddValues<double>(values, &bytes);
      break;
    case DEVRT_FLOAT16:
    case DEVRT_BFLOAT16:
      // Small whole numbers and halves: the upper bits of the float.
      for (const double v : values) {
        const float exact = static_cast<float>(v);
        uint32_t bits = 0;
        std::memcpy(&bits, &exact, sizeof bits);
        uint32_t half = bits >> 16;
        if (dtype == DEVRT_FLOAT16) {
          const uint32_t exponent = (bits >> 23 & 0xff) - 112;
          half = (bits & 0x7fffffff) == 0
                     ? 0
                     : bits >> 31 << 15 | exponent << 10 | (bits >> 13 & 0x3ff);
        }
        const auto narrow = static_cast<uint16_t>(half);
        bytes.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
      }
      break;
    case DEVRT_COMPLEX64:
      for (const double v : values) AddValues<float>({v, 0}, &bytes);
      break;
    case DEVRT_COMPLEX128:
      for (const double v : values) AddValues<double>({v, 0}, &bytes);
      break;
    default:
      break;
  }
  return bytes;
}

constexpr uint32_t kDtypes[] = {
    DEVRT_INT8,       DEVRT_INT16,      DEVRT_INT32,   DEVRT_INT64,
    DEVRT_UINT8,      DEVRT_UINT16,     DEVRT_UINT32,  DEVRT_UINT64,
    DEVRT_FLOAT16,    DEVRT_FLOAT32,    DEVRT_FLOAT64, DEVRT_BFLOAT16,
    DEVRT_COMPLEX64,  DEVRT_COMPLEX128, DEVRT_BOOL,    DEVRT_FLOAT8_E4M3FN,
    DEVRT_FLOAT8_E5M2};

TEST_F(CollectiveDtype, EachDtypeAndReduction) {
  const TestRanks ranks = Make(3);
  const std::vector<std::vector<double>> in = {
      {1, 4, 0, 1}, {2, 1, 0, 1}, {3, 2, 1, 1}};
  // Sum, prod, min, max, avg.
  const std::vector<std::vector<double>> want = {
      {6, 7, 1, 3}, {6, 8, 0, 1}, {1, 1, 0, 1}, {3, 4, 1, 1}, {2, 2, 0, 1}};
  for (const uint32_t dtype : kDtypes) {
    for (uint32_t op = 0; op < want.size(); ++op) {
      SCOPED_TRACE(std::to_string(dtype) + " " + std::to_string(op));
      const bool is_bool = dtype == DEVRT_BOOL;
      const bool is_order =
          op == DEVRT_COLLECTIVE_MIN || op == DEVRT_COLLECTIVE_MAX;
      const bool is_float8 =
          dtype == DEVRT_FLOAT8_E4M3FN || dtype == DEVRT_FLOAT8_E5M2;
      const bool is_complex =
          dtype == DEVRT_COMPLEX64 || dtype == DEVRT_COMPLEX128;
      uint32_t yes = 9;
      OK(table().supports(self(), DEVRT_COLLECTIVE_ALL_REDUCE, dtype, op,
                          &yes));
      ASSERT_EQ(yes == 1, !is_float8 && !(is_bool && !is_order) &&
                              !(is_complex && is_order));
      if (yes == 0) {
        ExpectCode(TrySubmit(ranks[0], {Op(DEVRT_COLLECTIVE_ALL_REDUCE, dtype,
                                           0, nullptr, nullptr, op)}),
                   DEVRT_INVALID_ARGUMENT);
        continue;
      }
      std::vector<double> expected = want[op];
      const bool is_integer = Elements(dtype, {0.5}) == Elements(dtype, {0});
      // Integers are truncated: 7 / 3 and 1 / 3.
      if (op == DEVRT_COLLECTIVE_AVG && !is_integer) {
        expected = {2, 7.0 / 3, 1.0 / 3, 1};
      }
      const bool is_rounded = dtype == DEVRT_FLOAT16 || dtype == DEVRT_BFLOAT16;
      const size_t count = op == DEVRT_COLLECTIVE_AVG && is_rounded ? 1 : 4;
      expected.resize(count);
      std::vector<void*> out;
      for (uint32_t r = 0; r < 3; ++r) {
        std::vector<double> own = in[r];
        if (is_bool) {
          for (double& v : own) v = v > 1 ? 1 : v;
        }
        void* const src = NewBuffer(r % 2, Elements(dtype, own));
        out.push_back(NewBuffer(r % 2, Elements(dtype, {0, 0, 0, 0})));
        Submit(ranks[r], {Op(DEVRT_COLLECTIVE_ALL_REDUCE, dtype, count, src,
                             out.back(), op)});
      }
      if (is_bool) {
        for (double& v : expected) v = v > 1 ? 1 : v;
      }
      SyncAll(ranks);
      const std::string bytes = Elements(dtype, expected);
      for (void* const result : out) {
        EXPECT_EQ(Bytes(result, bytes.size()), bytes);
      }
    }
  }
}

TEST_F(CollectiveDtype, FloatsAreAddedInTheOrderOfRanks) {
  const TestRanks ranks = Make(4);
  const std::vector<float> in = {1e8f, 1.0f, -1e8f, 0.25f};
  const float want = ((in[0] + in[1]) + in[2]) + in[3];
  void* out = nullptr;
  for (const uint32_t r : {3u, 1u, 0u, 2u}) {
    void* const src = NewBuffer(r % 2, Elements(DEVRT_FLOAT32, {in[r]}));
    out = NewBuffer(r % 2, Elements(DEVRT_FLOAT32, {0}));
    Submit(ranks[r],
           {Op(DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_FLOAT32, 1, src, out)});
  }
  SyncAll(ranks);
  EXPECT_EQ(Bytes(out, 4), Elements(DEVRT_FLOAT32, {want}));
}

}  // namespace
}  // namespace devrt::test
