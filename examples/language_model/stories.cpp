#include "examples/language_model/stories.h"

#include <fmt/format.h>

#include <array>
#include <random>

namespace language_model {

namespace {

struct Hero {
  const char *name, *kind, *he, *his;
};
constexpr std::array heroes = {Hero{"Lily", "girl", "she", "her"}, Hero{"Tom", "boy", "he", "his"},
                               Hero{"Mia", "cat", "she", "her"},   Hero{"Ben", "dog", "he", "his"},
                               Hero{"Sue", "girl", "she", "her"},  Hero{"Max", "bird", "he", "his"},
                               Hero{"Anna", "frog", "she", "her"}, Hero{"Sam", "boy", "he", "his"}};
constexpr std::array natures = {"little", "happy", "brave", "shy", "clever", "kind"};
constexpr std::array things = {"ball", "kite", "hat", "boat", "book", "cake", "drum", "flower"};
constexpr std::array colours = {"red", "blue", "green", "yellow", "big", "shiny"};
constexpr std::array places = {"the park", "the garden", "the river", "the forest", "the beach"};
constexpr std::array friends = {"an old man", "a rabbit", "a small bear", "a duck", "a tall girl"};
constexpr std::array lessons = {"it is good to share", "friends help each other",
                                "it is fine to ask for help", "a kind word helps",
                                "being careful is smart"};

std::string capital(std::string text) {
  text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

class Teller {
  template <class Words>
  const auto& any(const Words& words) {
    return words[random_() % words.size()];
  }

 public:
  explicit Teller(uint32_t seed) : random_(seed) {}

  std::string story() {
    const Hero& hero = any(heroes);
    const std::string thing = any(things), colour = any(colours), place = any(places),
                      he = capital(hero.he), other = any(friends);
    std::string text = fmt::format(
        "Once upon a time there was a {} {} named {}. {} had a {} {}. {} loved {} {} very much.\n",
        any(natures), hero.kind, hero.name, he, colour, thing, he, hero.his, thing);
    text += fmt::format("One day, {} went to {} with {} {}. ", hero.name, place, hero.his, thing);
    text += trouble(hero, thing, place);
    text +=
        fmt::format(" Then {} came by. \"Why are you sad?\" asked {}. \"My {} is {}!\" said {}.\n",
                    other, other, thing, lost_ ? "lost" : "broken", hero.name);
    text +=
        fmt::format("They {} together. Soon the {} {} was {}. {} smiled and said, \"Thank you!\" ",
                    lost_ ? "looked everywhere" : "worked on it", colour, thing,
                    lost_ ? "found" : "as good as new", hero.name);
    return text + fmt::format("From that day on, {} knew that {}.\n", hero.name, any(lessons));
  }

 private:
  std::string trouble(const Hero& hero, const std::string& thing, const std::string& place) {
    lost_ = random_() % 2 == 0;
    const std::string he = capital(hero.he);
    return lost_ ? fmt::format(
                       "The wind blew and the {} flew away. {} looked for it in {}, but "
                       "could not see it. {} was sad.",
                       thing, hero.name, place, he)
                 : fmt::format("{} fell over a stone, and the {} broke. {} sat down and cried.",
                               hero.name, thing, he);
  }

  std::mt19937 random_;
  bool lost_ = false;
};

}  // namespace

std::string made_stories(int64_t count, const std::string& end, uint32_t seed) {
  Teller teller(seed);
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += teller.story() + end;
  return text;
}

}  // namespace language_model
