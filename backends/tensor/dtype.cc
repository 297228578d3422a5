// SPDX-License-Identifier: Apache-2.0

#include "backends/tensor/dtype.h"

#include <cstdint>
#include <iterator>
#include <string>

#include "backends/tensor/tensor.h"

namespace devrt::tensor {
namespace {

struct Entry {
  uint32_t dtype;
  DtypeClass kind;
  const char* name;
};

constexpr Entry kDtypes[] = {
    {DEVRT_BOOL, DtypeClass::kBool, "bool"},
    {DEVRT_INT8, DtypeClass::kSigned, "int8"},
    {DEVRT_INT16, DtypeClass::kSigned, "int16"},
    {DEVRT_INT32, DtypeClass::kSigned, "int32"},
    {DEVRT_INT64, DtypeClass::kSigned, "int64"},
    {DEVRT_UINT8, DtypeClass::kUnsigned, "uint8"},
    {DEVRT_UINT16, DtypeClass::kUnsigned, "uint16"},
    {DEVRT_UINT32, DtypeClass::kUnsigned, "uint32"},
    {DEVRT_UINT64, DtypeClass::kUnsigned, "uint64"},
    {DEVRT_FLOAT16, DtypeClass::kFloat, "float16"},
    {DEVRT_FLOAT32, DtypeClass::kFloat, "float32"},
    {DEVRT_FLOAT64, DtypeClass::kFloat, "float64"},
    {DEVRT_BFLOAT16, DtypeClass::kFloat, "bfloat16"},
    {DEVRT_COMPLEX64, DtypeClass::kComplex, "complex64"},
    {DEVRT_COMPLEX128, DtypeClass::kComplex, "complex128"},
    {DEVRT_FLOAT8_E4M3FN, DtypeClass::kFloat8, "float8_e4m3fn"},
    {DEVRT_FLOAT8_E5M2, DtypeClass::kFloat8, "float8_e5m2"},
};

// Maps (code, bytes) to the index in kDtypes plus 1; 0 if it is unknown.
struct DtypePlaces {
  static constexpr uint32_t kCodes = 16, kMostBytes = 16;
  constexpr DtypePlaces() {
    for (uint8_t i = 0; i < std::size(kDtypes); ++i) {
      const uint32_t dtype = kDtypes[i].dtype;
      places[dtype >> 8][(dtype & 0xff) / 8] = static_cast<uint8_t>(i + 1);
    }
  }
  uint8_t places[kCodes][kMostBytes + 1] = {};
};

const Entry* Find(uint32_t dtype) {
  static constexpr DtypePlaces kDtypePlaces;
  const uint32_t code = dtype >> 8, bits = dtype & 0xff;
  if (code >= DtypePlaces::kCodes || bits > DtypePlaces::kMostBytes * 8)
    return nullptr;
  const uint32_t place = kDtypePlaces.places[code][bits / 8];
  if (place == 0 || kDtypes[place - 1].dtype != dtype) return nullptr;
  return &kDtypes[place - 1];
}

}  // namespace

uint32_t DtypeSize(uint32_t dtype) {
  return Find(dtype) == nullptr ? 0 : (dtype & 0xff) / 8;
}

std::string DtypeName(uint32_t dtype) {
  if (const Entry* entry = Find(dtype)) return entry->name;
  return "(code " + std::to_string(dtype >> 8) + ", " +
         std::to_string(dtype & 0xff) + " bits)";
}

DtypeClass ClassOf(uint32_t dtype) {
  const Entry* entry = Find(dtype);
  return entry == nullptr ? DtypeClass::kUnknown : entry->kind;
}

uint32_t ComputeDtype(uint32_t dtype) {
  const DtypeClass kind = ClassOf(dtype);
  const bool narrow = kind == DtypeClass::kFloat8 ||
                      (kind == DtypeClass::kFloat && DtypeSize(dtype) == 2);
  return narrow ? DEVRT_FLOAT32 : dtype;
}

uint32_t RawDtype(uint32_t dtype) {
  if (dtype == DEVRT_BOOL) return dtype;
  switch (DtypeSize(dtype)) {
    case 1:
      return DEVRT_UINT8;
    case 2:
      return DEVRT_UINT16;
    case 4:
      return DEVRT_UINT32;
    case 8:
      return DEVRT_UINT64;
    default:
      return DEVRT_COMPLEX128;
  }
}

}  // namespace devrt::tensor
