# A site in Django that notifies a user on all pages that this user has open. It holds no connection and stores nothing: the gateway has the connections.
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import jwt
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_GET, require_POST

HERE = Path(__file__).parent
# What the gateways check tokens with (auth.secret_file).
SECRET = Path(os.environ.get("SECRET_FILE", HERE / "secret")).read_text().strip()
# Addresses of the gateways' server API. Each of them reaches the clients of all.
GATEWAYS = os.environ.get("SOCKEYE", "http://127.0.0.1:9090").split(",")
KEY = os.environ["SOCKEYE_API_KEY"]
TOKEN_SECONDS = 600
TEXT_MAX = 200
# Your own login takes the place of this list.
USERS = {"ada": "Ada", "ben": "Ben", "cleo": "Cleo"}

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    # Signed for another purpose than tokens, so that neither is good for the other.
    SECRET_KEY="cookies of the site " + SECRET,
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
    ],
    # Cookies are signed and no session is stored: any process of the site can answer.
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [HERE]}],
    LOGGING_CONFIG=None,
    USE_TZ=True,
)


def user_of(request):
    name = request.session.get("user")
    return name if name in USERS else None


@require_GET
@ensure_csrf_cookie
def page(request):
    return render(request, "index.html", {"users": USERS, "user": user_of(request), "name": USERS.get(user_of(request))})


@require_POST
def log_in(request):
    if request.POST.get("user") not in USERS:
        return HttpResponseBadRequest("no such user")
    request.session["user"] = request.POST["user"]
    return redirect("/")


@require_POST
def log_out(request):
    request.session.flush()
    return redirect("/")


@require_GET
def token(request):
    """The page asks for one before each connect, and shortly before the last one ends."""
    user = user_of(request)
    if user is None:
        return JsonResponse({"error": "log in first"}, status=401)
    claims = {"sub": user, "exp": int(time.time()) + TOKEN_SECONDS}
    answer = JsonResponse({"token": jwt.encode(claims, SECRET, algorithm="HS256")})
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
def notify(request):
    sender, to, text = user_of(request), request.POST.get("to"), request.POST.get("text", "").strip()
    if sender is None:
        return JsonResponse({"error": "log in first"}, status=401)
    if to not in USERS or not 0 < len(text) <= TEXT_MAX:
        return JsonResponse({"error": f"say one of {', '.join(USERS)}, and a text of 1 to {TEXT_MAX} characters"}, status=400)
    notification = {"id": str(uuid.uuid4()), "from": USERS[sender], "text": text}
    try:
        told = emit({"event": "notification", "args": [notification], "users": [to], "ack": {"timeout_ms": 3000}})
    except OSError as error:
        return JsonResponse({"error": f"cannot notify {to}: {error}"}, status=503)
    return JsonResponse({"to": USERS[to], "pages": told["acked"]})


def emit(body):
    """Asks each gateway in turn: one may just be gone. Pages show a notification once, even if it is told twice."""
    for at, gateway in enumerate(GATEWAYS):
        headers = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
        request = urllib.request.Request(gateway + "/v1/emit", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code < 500 or at == len(GATEWAYS) - 1:
                raise
        except OSError:
            if at == len(GATEWAYS) - 1:
                raise


urlpatterns = [
    path("", page),
    path("log-in", log_in),
    path("log-out", log_out),
    path("token", token),
    path("notify", notify),
]

if __name__ == "__main__":
    execute_from_command_line([sys.argv[0], "runserver", "--noreload", os.environ.get("PORT", "8000")])
