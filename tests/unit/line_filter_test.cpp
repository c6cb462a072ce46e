#include "launcher/output/line_filter.hpp"

#include "launcher/cli/option_values.hpp"

#include <doctest/doctest.h>

#include <variant>

namespace line_filter_test {

using ddprun::kConsoleLineBytesMax;
using ddprun::LineFilter;

namespace {

constexpr ddprun::LinePrefixer::TimePoint kNow{};

using Texts = std::vector<std::string>;

Texts parsed(const std::string& text) {
  return std::get<Texts>(ddprun::parse_filters(text));
}

}  // namespace

TEST_SUITE("line filter") {
  TEST_CASE("line filter: a line that contains one of the texts is returned with the prefix") {
    LineFilter filter("[a0]:", {"loss", "error"});
    CHECK(filter.take("loss 1\nstep 2\nan er", kNow) == "[a0]:loss 1\n");
    CHECK(filter.take("ror\n", kNow) == "[a0]:an error\n");
    CHECK(filter.finish(kNow).empty());
  }

  TEST_CASE("line filter: the prefix is not searched") {
    LineFilter filter("loss:", {"loss"});
    CHECK(filter.take("step\n", kNow).empty());
  }

  TEST_CASE("line filter: a last line without a newline is searched") {
    LineFilter filter(">", {"loss"});
    CHECK(filter.take("the loss", kNow).empty());
    CHECK(filter.finish(kNow) == ">the loss\n");
  }

  TEST_CASE("line filter: only the last state of a progress bar is searched") {
    LineFilter filter(">", {"loss 1"});
    CHECK(filter.take("\rloss 1\rloss 2\n\rloss 0\rloss 1\n", kNow) == ">loss 1\n");
  }

  TEST_CASE("line filter: an endless line is split at the console's line limit") {
    LineFilter filter(">", {"x"});
    const auto out = filter.take(std::string(kConsoleLineBytesMax + 1, 'x'), kNow);
    CHECK(out == ">" + std::string(kConsoleLineBytesMax, 'x') + "\n");
  }

  TEST_CASE("line filter: an empty list matches nothing") {
    LineFilter filter(">", {});
    CHECK(filter.take("a\n\n", kNow).empty());
  }
}

TEST_SUITE("filters") {
  TEST_CASE("filters: commas separate texts and a double comma stands for a comma") {
    CHECK(parsed("loss,error") == Texts{"loss", "error"});
    CHECK(parsed("a,,b") == Texts{"a,b"});
    CHECK(parsed("a,,b,c d") == Texts{"a,b", "c d"});
    CHECK(parsed("a,,,b") == Texts{"a,", "b"});
    CHECK(parsed(",,") == Texts{","});
    CHECK(parsed("a,") == Texts{"a"});
    CHECK(parsed("").empty());
  }

  TEST_CASE("filters: more than 64 texts are rejected") {
    std::string text = "x";
    for (std::size_t i = 1; i < ddprun::kFiltersMax; ++i) text += ",x";
    CHECK(parsed(text).size() == ddprun::kFiltersMax);
    const auto problem = std::get<ddprun::ValueProblem>(ddprun::parse_filters(text + ",x"));
    CHECK(problem.text == "has more than 64 texts");
  }
}

}  // namespace line_filter_test
