// Mesh arithmetic for every rank of every world, against counting.
#include <doctest/doctest.h>

#include "parallel/mesh.h"
#include "platform/error.h"

#include <algorithm>
#include <map>
#include <random>

using namespace booster;

namespace {

using Names = std::vector<std::string>;

// Returns some of the axes in any order, with sizes whose product is `ranks`.
std::vector<Axis> random_axes(int ranks, std::mt19937& random) {
  Names names = {"data", "pipeline", "sequence", "tensor"};
  std::shuffle(names.begin(), names.end(), random);
  names.resize(1 + random() % names.size());
  std::vector<Axis> axes;
  for (const auto& name : names) {
    std::vector<int> divisors;
    for (int size = 1; size <= ranks; ++size)
      if (ranks % size == 0) divisors.push_back(size);
    const int size = axes.size() + 1 == names.size() ? ranks : divisors[random() % divisors.size()];
    axes.push_back({name, size});
    ranks /= size;
  }
  return axes;
}

Names random_names(std::mt19937& random) {
  Names names = {"data", "pipeline", "sequence", "tensor"};
  std::shuffle(names.begin(), names.end(), random);
  names.resize(random() % (names.size() + 1));
  return names;
}

// Returns every rank's position by counting like an odometer: the last axis turns first.
std::vector<std::map<std::string, int>> places_by_counting(const std::vector<Axis>& axes) {
  std::vector<int> wheels(axes.size(), 0);
  std::vector<std::map<std::string, int>> places;
  for (;;) {
    std::map<std::string, int> place;
    for (size_t i = 0; i < axes.size(); ++i) place[axes[i].name] = wheels[i];
    places.push_back(place);
    int at = static_cast<int>(axes.size()) - 1;
    while (at >= 0 && ++wheels[at] == axes[at].size) wheels[at--] = 0;
    if (at < 0) return places;
  }
}

// Returns true if the two have the same position on every axis except these.
bool same_beside(std::map<std::string, int> a, std::map<std::string, int> b, const Names& axes) {
  for (const auto& axis : axes) {
    a.erase(axis);
    b.erase(axis);
  }
  return a == b;
}

std::string text_of(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) text += axis.name + " " + std::to_string(axis.size) + " ";
  return text;
}

template <class Body>
void for_random_axes(Body&& body) {
  std::mt19937 random(7);
  for (int ranks = 1; ranks <= 12; ++ranks)
    for (int draw = 0; draw < 30; ++draw) {
      const auto axes = random_axes(ranks, random);
      CAPTURE(text_of(axes));
      body(ranks, axes, random);
    }
}

std::string refusal(int ranks, const std::vector<Axis>& axes) {
  try {
    Axes(ranks, axes);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ranks lie row-major along the axes") {
  for_random_axes([](int ranks, const std::vector<Axis>& list, std::mt19937&) {
    const Axes axes(ranks, list);
    const auto places = places_by_counting(list);
    REQUIRE(static_cast<int>(places.size()) == ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      std::string description;
      for (const Axis& axis : list) {
        const int place = places[rank].at(axis.name);
        CHECK(axes.place(rank, axis.name) == place);
        if (axis.size > 1)
          description += fmt::format("{}{} {}", description.empty() ? "" : ", ", axis.name, place);
      }
      CHECK(axes.describe(rank) == description);
    }
  });
}

TEST_CASE("ranks along axes are those that differ only there") {
  for_random_axes([](int ranks, const std::vector<Axis>& list, std::mt19937& random) {
    const Axes axes(ranks, list);
    const auto places = places_by_counting(list);
    const Names along = random_names(random);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> want;
      for (int other = 0; other < ranks; ++other)
        if (same_beside(places[rank], places[other], along)) want.push_back(other);
      CHECK(axes.ranks_along(rank, along) == want);
    }
    // Along one axis the index is the position.
    for (const Axis& axis : list)
      for (int rank = 0; rank < ranks; ++rank) {
        const auto line = axes.ranks_along(rank, {axis.name});
        REQUIRE(static_cast<int>(line.size()) == axis.size);
        CHECK(line[axes.place(rank, axis.name)] == rank);
      }
  });
}

TEST_CASE("a size of -1 is what the other axes leave") {
  for_random_axes([](int ranks, const std::vector<Axis>& list, std::mt19937& random) {
    auto open = list;
    open[random() % open.size()].size = -1;
    const Axes axes(ranks, open);
    CHECK(text_of(axes.list()) == text_of(list));
  });
}

TEST_CASE("axes and layouts say the same sizes") {
  for_random_axes([](int ranks, const std::vector<Axis>& list, std::mt19937&) {
    const Axes axes(ranks, list);
    const Layout layout = axes.layout();
    CHECK(layout.data == axes.size("data"));
    CHECK(layout.pipeline == axes.size("pipeline"));
    CHECK(layout.sequence == axes.size("sequence"));
    CHECK(layout.tensor == axes.size("tensor"));
    CHECK(layout.zero_stage == 0);
    for (const Axis& axis : list) CHECK(axes.size(axis.name) == axis.size);
    const Axes again(ranks, axes_of(layout));
    CHECK(text_of(again.list()) == text_of(axes_of(layout)));
  });
  CHECK(text_of(axes_of({.data = 2, .tensor = 3, .pipeline = 4, .sequence = 5})) ==
        "data 2 pipeline 4 sequence 5 tensor 3 ");
}

TEST_CASE("one rank needs no axis, and has place 0 on each") {
  const Axes none;
  CHECK(none.ranks() == 1);
  CHECK(none.list().empty());
  CHECK(none.size("tensor") == 1);
  CHECK(none.place(0, "pipeline") == 0);
  CHECK(none.ranks_along(0, {"data", "tensor"}) == std::vector<int>{0});
  CHECK(none.describe(0) == "");
}

TEST_CASE("sizes that do not make up the world are refused with some that do") {
  CHECK(refusal(4, {{"data", 2}, {"tensor", 3}}) ==
        "Mesh: the product of the axes is not the number of ranks; got data 2 x tensor 3 = 6 "
        "ranks, want 4: "
        "data 2 x tensor 2");
  CHECK(refusal(12, {{"data", 2}, {"tensor", 3}}) ==
        "Mesh: the product of the axes is not the number of ranks; got data 2 x tensor 3 = 6 "
        "ranks, want 12: "
        "data 4 x tensor 3, or data 2 x tensor 6");
  CHECK(refusal(6, {{"data", 4}, {"tensor", 4}}) ==
        "Mesh: the product of the axes is not the number of ranks; got data 4 x tensor 4 = 16 "
        "ranks, want 6: "
        "sizes of 1, 2, 3, 6");
  CHECK(refusal(2, {}) ==
        "Mesh: the product of the axes is not the number of ranks; got no axis = 1 ranks, want 2: "
        "sizes of 1, 2");
  const int huge = 2000000000;
  CHECK(refusal(2, {{"data", huge}, {"tensor", huge}, {"pipeline", huge}}) != "");
  CHECK(refusal(8, {{"data", -1}, {"tensor", 3}}) ==
        "Mesh: the sizes of the axes do not divide the number of ranks; got tensor 3 for 8 ranks, "
        "want "
        "data 1 x tensor 8");
}

TEST_CASE("axes that mean nothing are refused") {
  CHECK(refusal(4, {{"data", 0}, {"tensor", 4}}) ==
        "Mesh: an axis is too small; got data 0, want at least 1, or -1 for the ranks that the "
        "others leave");
  CHECK(refusal(4, {{"data", -2}}) != "");
  CHECK(refusal(4, {{"data", -1}, {"tensor", -1}}) ==
        "Mesh: more than one size is -1; got data -1 x tensor -1, want at most one");
  CHECK(refusal(4, {{"data", 2}, {"tenser", 2}}) ==
        "Mesh: no such axis; got 'tenser'; want one of data, pipeline, sequence, tensor (did you "
        "mean tensor?)");
  CHECK(refusal(4, {{"data", 2}, {"data", 2}}) ==
        "Mesh: axis data occurs twice; want each axis once");
  const Axes axes(4, {{"data", 4}});
  CHECK_THROWS_AS(axes.size("model"), Error);
  CHECK_THROWS_AS(axes.place(4, "data"), Error);
  CHECK_THROWS_AS(axes.describe(-1), Error);
  CHECK_THROWS_AS(axes.ranks_along(0, {"data", "data"}), Error);
}
