# SPDX-License-Identifier: Apache-2.0
"""A page that is wrong is found out."""

import os
import pathlib
import tempfile
import unittest

import follow_page

GOOD = """
```sh
mkdir made; cd made
export GREETING=hello
```
```cpp
// a.cc
// one
// two
```
```cpp
// a.cc, instead of "two":
// $GREETING
```
```sh
echo "$GREETING   there"; cat a.cc
```
```text
hello there
  // one
// $GREETING
```
```
not a step
```
"""


class FollowPage(unittest.TestCase):

    def follow(self, text):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "page.md").write_text(text)
            return follow_page.follow(folder / "page.md", folder,
                                      dict(os.environ))

    def test_good_page_is_followed(self):
        self.assertEqual(self.follow(GOOD), 5)

    def test_wrong_pages_fail_with_the_reason(self):
        for old, new, message in [
                ("hello there\n", "hello nobody\n", "not in the output"),
                ("// one\n//", "// two\n//", "2 lines have 'two'"),
                ('of "two"', 'of "three"', "0 lines have 'three'"),
                ("// a.cc\n", "int a;\n", "no block before has made a.cc"),
                ("export", "false; export", "failed:"),
                ("```text", "```txt", "a block in 'txt'")]:
            self.assertIn(old, GOOD)
            with self.assertRaisesRegex(follow_page.PageError, message):
                self.follow(GOOD.replace(old, new))


if __name__ == "__main__":
    unittest.main()
