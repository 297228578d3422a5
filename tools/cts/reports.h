// SPDX-License-Identifier: Apache-2.0
//
// A conformance report as text, JSON and JUnit XML.

#ifndef DEVRT_TOOLS_CTS_REPORTS_H_
#define DEVRT_TOOLS_CTS_REPORTS_H_

#include <string>

#include "devrt/cts/cts.h"

namespace devrt::tools {

// One failed test, with all details.
std::string FailureText(const cts::TestResult& result);
// The conformance statement: counts, what was not run and why, waivers.
std::string StatementText(const cts::Report& report);

std::string ReportJson(const cts::Report& report);
std::string ReportJunit(const cts::Report& report);

// All tests, for --list.
std::string ListText();
std::string ListJson();

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_CTS_REPORTS_H_
