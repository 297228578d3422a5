# SPDX-License-Identifier: Apache-2.0
"""devrt check --witness: findings become wrong values that can be repeated."""

import json
import os
import unittest

from tool import ToolTest

# Does what its argument says; witness_program.cc has a list.
PROGRAM = os.environ["DEVRT_TEST_WITNESS_PROGRAM"]
FINDINGS = 3


class WitnessTest(ToolTest):

    def check(self, action, *flags, expect=FINDINGS, **variables):
        # The ordinary run computes the right value.
        variables.setdefault("DEVRT_MTIA", "strategy=asap")
        return self.run_tool("check", "--witness", "--json=f", *flags, "--",
                             PROGRAM, action, expect=expect, **variables)

    def witness(self, action, *flags, expect=FINDINGS, **variables):
        """The record of the one finding."""
        self.check(action, *flags, expect=expect, **variables)
        lines = (self.folder / "f").read_text(encoding="utf-8").splitlines()
        witness, = [record for record in map(json.loads, lines)
                    if record.get("record") == "witness"]
        return witness

    def test_a_wrong_value_is_repeated(self):
        result = self.check("print")
        self.assertEqual(result.stdout, "2\n")  # of the ordinary run alone
        self.assertRegex(result.stderr,
                         r"\n    witness: wrong value in directed run \d+; repeat "
                         r"it with DEVRT_SIM_REPLAY=dvs1:\S+ "
                         r"DEVRT_MTIA=strategy=asap \S*witness_program print\n")
        witness = self.witness("print")
        self.assertEqual(witness["result"], "wrong-value")
        self.assertEqual(witness["variables"],
                         {"DEVRT_MTIA": "strategy=asap",
                          "DEVRT_SIM_REPLAY": witness["token"]})
        for variables in ({}, {"DEVRT_LAYERS": "validate", "DEVRT_LOG": "off"}):
            again = self.run_program([PROGRAM, "print"],
                                     DEVRT_SIM_REPLAY=witness["token"],
                                     **variables)
            self.assertEqual(again.stdout, "1\n")

    def test_keys_of_the_machine_stay(self):
        machine = "memory=64MiB,strategy=random,seed=3"
        witness = self.witness("print", DEVRT_MTIA=machine)
        self.assertEqual(witness["variables"],
                         {"DEVRT_MTIA": machine,
                          "DEVRT_SIM_REPLAY": witness["token"]})
        again = self.run_program([PROGRAM, "print"], **witness["variables"])
        self.assertEqual(again.stdout, "1\n")

    def test_runs_are_in_the_virtual_mode(self):
        witness = self.witness("print", DEVRT_MTIA="mode=threaded")
        self.assertEqual(witness["result"], "wrong-value")
        again = self.run_program([PROGRAM, "print"], **witness["variables"])
        self.assertEqual(again.stdout, "1\n")

    def test_the_users_replay_does_not_bind_directed_runs(self):
        token = self.witness("print")["token"]
        witness = self.witness("print", DEVRT_SIM_REPLAY=token)
        self.assertEqual(witness["result"], "wrong-value")

    def test_a_check_of_the_program_fails(self):
        witness = self.witness("fail")
        self.assertEqual(witness["result"], "failure")
        self.assertIn("exit code 9 in place of 0", witness["text"])
        self.run_program([PROGRAM, "fail"], expect=9,
                         DEVRT_SIM_REPLAY=witness["token"])

    def test_a_program_that_crashes_is_repeated_by_its_machine(self):
        witness = self.witness("abort")
        self.assertEqual(witness["result"], "failure")
        self.assertNotIn("token", witness)
        self.assertEqual(list(witness["variables"]), ["DEVRT_MTIA"])
        self.run_program([PROGRAM, "abort"], expect=-6, **witness["variables"])

    def test_the_host_reads_in_flight(self):
        self.assertEqual(self.witness("touch")["result"], "wrong-value")

    def test_equal_values_are_no_witness(self):
        witness = self.witness("equal", "--witness=3")
        self.assertEqual((witness["result"], witness["runs"]), ("unconfirmed", 3))
        self.assertEqual(witness["text"], "unconfirmed in 3 directed runs")

    def test_programs_that_cannot_be_directed(self):
        for action, text in (("children", "one process on the simulator"),
                             ("restart", "restarts the simulator itself"),
                             ("leave", "ends by _exit or a signal"),
                             ("chance", "depends on time, chance or threads")):
            witness = self.witness(action)
            self.assertEqual((witness["result"], witness["runs"]), ("none", 0))
            self.assertIn(text, witness["text"])

    def test_other_files_have_the_witness(self):
        self.check("print", "--sarif=s", "--svg=pictures")
        log = json.loads((self.folder / "s").read_text(encoding="utf-8"))
        result, = log["runs"][0]["results"]
        self.assertIn(" Witness: wrong value", result["message"]["text"])
        self.assertIn("DEVRT_SIM_REPLAY=", result["properties"]["witness"])
        picture, = (self.folder / "pictures").iterdir()
        self.assertIn("Witness: wrong value", picture.read_text(encoding="utf-8"))

    def test_without_the_flag_nothing_is_added(self):
        self.run_tool("check", "--json=f", "--", PROGRAM, "print", expect=FINDINGS)
        text = (self.folder / "f").read_text(encoding="utf-8")
        for word in ('"op"', '"runs"', '"witness"'):
            self.assertNotIn(word, text)

    def test_wrong_usage(self):
        self.assert_wrong_usage(["check", "--witness=0", "true"],
                                "from 1 to 1000000")
        self.assert_wrong_usage(["check", "--witness", "--throw", "true"],
                                "give one of them")


if __name__ == "__main__":
    unittest.main()
