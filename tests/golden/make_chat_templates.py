"""Chat templates in the manner of today's models, and what transformers makes of drawn conversations
with them. Writes tests/golden/text/chat_templates.json.

    python tests/golden/make_chat_templates.py

Versions that made the committed file: transformers 5.24.0.

"templates": by name the source and the special tokens. "cases": [template, messages, whether a
generation prompt is added, the text, or null where the template refuses].
"""
import json
import pathlib
import random

import transformers
from transformers.utils.chat_template_utils import render_jinja_template

folder = pathlib.Path(__file__).parent / "text"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

CHATML = """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] \
+ '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

# ChatML with a default system message and tools, as Qwen's.
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(asked=false, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.asked and message.role == "user" and message.content is string %}
        {%- set ns.asked = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- set content = message.content %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thought)) %}
            {{- '<|im_start|>' ~ message.role ~ '\\n<think>\\n' ~ thought.strip('\\n') ~ '\\n</think>\\n\\n' ~ content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}\
{% else %}{% set rest = messages %}{% set system = false %}{% endif %}{% for message in rest %}\
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('user and assistant must alternate') }}{% endif %}\
{% if loop.index0 == 0 and system is not false %}{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}\
{% else %}{% set content = message['content'] %}{% endif %}\
{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}\
{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{#- A comment. -#}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, got " + message["role"] + " after " ~ (user_messages|length) ~ " questions") }}
    {%- endif %}
{%- endfor %}
"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}\
{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}\
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""

# What the others leave out of the subset.
ODD = """  {% set sep = " | " %}
\t{# gone #}
{% for role, group in {'user': 1, 'assistant': 2.5}.items() if group > 0 +%}
{{ loop.revindex }}{{ loop.previtem is defined }} {{ role|upper ~ sep ~ group }} {{ (1 if true else 2) if false else 7 // 2 }}
{% else %}never{% endfor %}
{% macro shout(text, mark='!', times=2) -%}
  {{ text | upper ~ mark * times ~ sep }}{{ loop is defined }}
{%- endmacro %}
{{ shout('a') }}{{ shout('b', times=1) }}{{ shout('c', '?') }} {{ [1, 'x', 2] | select('string') | list | first }}{{ [1, 'x'] | reject('string') | list | length }}
{% set block %}[{{ messages | map(attribute='role') | join(',') }}]{% endset %}
{{ block }} {{ messages|length }} {{ -7 % 3 }} {{ -7 // 2 }} {{ 7 / 2 }} {{ 'ab' * 2 }} {{ "a\\tb\\u00e9" }}
{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{% if loop.index > 3 %}{% break %}{% endif %}
{{- m.content[:3] }}/{{ m.content[-2:] }}/{{ m['content'][::-1][:2] }}/{{ m.missing }}/{{ m.content.strip()|length }}
{%- generation %}{{ m.content|replace('a', 'A')|capitalize }}{% endgeneration %} {{ m|tojson }} {{ m.role in ['user'] }} {{ not m.content }} {{ m.content is string and m.tools is none }}
{% endfor %}
{%+ if true %}  kept {%- endif %}
{{ [1, 2] + [3] == [1, 2, 3] }} {{ none }} {{ undefined_thing }} {{ undefined_thing|default('d') }} {{ ''|default('e', true) }} {{ range(2, 8, 3)|list|last }}
"""

TEMPLATES = {"chatml": CHATML, "qwen": QWEN, "llama2": LLAMA2, "llama3": LLAMA3, "mistral": MISTRAL,
             "zephyr": ZEPHYR, "gemma": GEMMA, "odd": ODD}

WORDS = ["Hello", "why", " ", "\n", "\n\n", "a", "naïve", "日本", "🙂", "\u00a0", "\u2003", "\t", "x" * 9,
         "<think>", "</think>", "<|im_end|>", "{{ 1 }}", "'", '"', "\\", "2 + 2 = 4.", "\u3000", "e\u0301", "\r\n"]


def drawn_text(random_):
    return "".join(random_.choice(WORDS) for _ in range(random_.randint(0, 7)))


def drawn_conversation(random_):
    messages = []
    if random_.random() < 0.4:
        messages.append({"role": "system", "content": drawn_text(random_)})
    for turn in range(random_.randint(1, 5)):
        role = "user" if turn % 2 == 0 else "assistant"
        if random_.random() < 0.05:
            role = "system"
        messages.append({"role": role, "content": drawn_text(random_)})
    return messages


def rendered(source, messages, prompt):
    try:
        return render_jinja_template([messages], chat_template=source, add_generation_prompt=prompt,
                                     **TOKENS)[0][0]
    except Exception:  # the template's raise_exception, or a text that is no text
        return None


def main():
    random_ = random.Random(1)
    cases = []
    for name, source in TEMPLATES.items():
        for _ in range(30):
            messages = drawn_conversation(random_)
            prompt = random_.random() < 0.5
            cases.append([name, [[m["role"], m["content"]] for m in messages], prompt,
                          rendered(source, messages, prompt)])
    print(sum(case[3] is None for case in cases), "refused of", len(cases), transformers.__version__)
    with open(folder / "chat_templates.json", "w") as file:
        json.dump({"tokens": TOKENS, "templates": TEMPLATES, "cases": cases}, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
