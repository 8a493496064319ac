"""Calls tools of a server of the Model Context Protocol, by the protocol's own client.

The standard input has an object: `command` and `args` of the server, `mode` (`auto`, or `legacy` for
clients of before 2026), and `calls`, a list of lists: tool, arguments. The output is an object too."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def ask(asked):
    server = StdioServerParameters(command=asked["command"], args=asked["args"])
    async with Client(server, mode=asked["mode"], read_timeout_seconds=120) as client:
        tools = (await client.list_tools()).tools
        answers = []
        for tool, arguments in asked["calls"]:
            result = await client.call_tool(tool, arguments)
            dumped = result.model_dump(by_alias=True, exclude_none=True)
            answers.append(
                {
                    "tool": tool,
                    "error": dumped.get("isError", False),
                    "texts": [block["text"] for block in dumped["content"]],
                    "others": sorted(set(dumped) - {"content", "isError", "resultType"}),
                }
            )
        return {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "instructions": client.instructions,
            "tools": [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools],
            "answers": answers,
        }


print(json.dumps(asyncio.run(ask(json.load(sys.stdin)))))
